"""`muster collections` from the words typed to the requests and the output."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command_line import NOT_THERE, FakeMuster, sent

PATH = "/control/collections"
ORDERS: dict[str, Any] = {
    "id": "col_0PJ3F6SK81VB8",
    "name": "orders",
    "description": "What was ordered",
    "fields": [
        {"name": "name", "type": "STRING", "required": True, "max": 100},
        {"name": "kind", "type": "PICKLIST", "values": ["a" * 40, "b" * 40]},
        {"name": "total", "type": "FORMULA", "formula": "a * b"},
    ],
    "version": 3,
    "status": "ACTIVE",
    "indexBuilding": True,
    "createdAt": "2026-01-31T12:00:00.000000Z",
    "updatedAt": "2026-01-31T12:00:00.000000Z",
}
PREVIEW: dict[str, Any] = {
    "breaking": True,
    "changes": [{"field": "name", "kind": "max", "severity": "breaking", "sentence": "narrower"}],
    "recordsChecked": 50_000,
    "complete": False,
    "misfits": 1_200,
    "examples": [{"recordId": "rec-1", "field": "name", "expected": "at most 5 characters"}],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.json"
    path.write_text(json.dumps({"name": "orders", "fields": ORDERS["fields"]}))
    return path


def test_collections_are_listed_and_shown(muster: FakeMuster) -> None:
    item = {**{k: v for k, v in ORDERS.items() if k != "fields"}, "fieldCount": 12}
    muster.answers[f"GET {PATH}"] = {"items": [item], "total": 1, "nextCursor": "orders"}
    listed = muster.run("collections", "list", "--status", "active").stdout
    for text in ("orders", "12", "ACTIVE", "More: --cursor orders"):
        assert text in listed
    assert muster.requests[0].url.params["status"] == "ACTIVE"
    muster.answers[f"GET {PATH}/orders"] = ORDERS
    shown = muster.run("collections", "show", "orders").stdout
    for text in ("required, max 100", "formula a * b", "…", "is being built"):
        assert text in shown
    version = {"version": 1, "note": "n", "createdBy": "k", "fields": ORDERS["fields"][:1]}
    muster.answers[f"GET {PATH}/orders/versions/1"] = version
    assert "required" in muster.run("collections", "show", "orders", "-v", "1").stdout
    muster.answers[f"GET {PATH}/none"] = NOT_THERE
    assert "There is no collection none" in muster.run("collections", "show", "none").stderr


def test_a_file_creates_a_collection(muster: FakeMuster, file: Path) -> None:
    muster.answers[f"GET {PATH}/orders"] = NOT_THERE
    muster.answers[f"POST {PATH}"] = {**ORDERS, "version": 1}
    done = muster.run("collections", "apply", "-f", str(file), "--note", "first")
    assert done.stdout == "Collection orders: version 1.\n"
    assert sent(muster) == {"name": "orders", "fields": ORDERS["fields"], "note": "first"}


def test_a_file_changes_a_collection(muster: FakeMuster, file: Path) -> None:
    muster.answers[f"GET {PATH}/orders"] = ORDERS
    muster.answers[f"PUT {PATH}/orders"] = {**ORDERS, "version": 4}
    done = muster.run("collections", "apply", "-f", str(file))
    assert done.stdout == "Collection orders: version 4.\n"
    assert muster.requests[-1].headers["If-Match"] == '"3"'
    muster.answers[f"PUT {PATH}/orders"] = ORDERS
    same = muster.run("collections", "apply", "-f", str(file))
    assert same.stdout == "Collection orders: its fields are as before.\n"


def test_an_exported_file_changes_its_version_only(muster: FakeMuster, tmp_path: Path) -> None:
    muster.answers[f"GET {PATH}/orders"] = ORDERS
    exported = muster.run("collections", "export", "orders").stdout
    assert json.loads(exported) == {
        name: ORDERS[name] for name in ("name", "description", "version", "fields")
    }
    stale = json.dumps(json.loads(exported) | {"version": 2})
    muster.answers[f"PUT {PATH}/orders"] = httpx.Response(412, json={"detail": "another version"})
    done = muster.run("collections", "apply", "-f", "-", stdin=stale)
    assert (done.exit_code, done.stderr) == (1, "Another version.\n")
    assert muster.requests[-1].headers["If-Match"] == '"2"'
    assert "version" not in sent(muster)


def test_what_goes_wrong_is_told(muster: FakeMuster, tmp_path: Path) -> None:
    assert muster.run("collections", "apply").exit_code == 2
    missing = muster.run("collections", "apply", "-f", str(tmp_path / "none.json"))
    assert "Cannot read" in missing.stderr
    nameless = tmp_path / "nameless.json"
    nameless.write_text('{"fields": []}')
    assert "names no collection" in muster.run("collections", "apply", "-f", str(nameless)).stderr
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "is not JSON" in muster.run("collections", "preview", "-f", str(broken)).stderr
    muster.answers[f"GET {PATH}/orders"] = httpx.Response(503, json={"detail": "not now"})
    orders = tmp_path / "orders.json"
    orders.write_text('{"name": "orders", "fields": []}')
    assert muster.run("collections", "apply", "-f", str(orders)).stderr == "Not now.\n"


def test_a_preview_says_what_breaks(muster: FakeMuster, file: Path) -> None:
    muster.answers[f"POST {PATH}/orders/preview"] = PREVIEW
    told = muster.run("collections", "preview", "-f", str(file)).stdout
    for text in ("breaking", "narrower", "1,200 of the first 50,000 records", "at most 5"):
        assert text in told
    nothing = {**PREVIEW, "changes": [], "misfits": 0, "examples": []}
    muster.answers[f"POST {PATH}/orders/preview"] = nothing
    assert muster.run("collections", "preview", "-f", str(file)).stdout == "Nothing would change.\n"


def test_versions_are_listed(muster: FakeMuster) -> None:
    item = {"version": 2, "note": "totals", "createdBy": "ab12", "createdAt": ORDERS["createdAt"]}
    muster.answers[f"GET {PATH}/orders/versions"] = {"items": [item], "nextCursor": None}
    listed = muster.run("collections", "versions", "orders", "--limit", "5").stdout
    assert "totals" in listed
    assert muster.requests[-1].url.params["limit"] == "5"


def test_a_collection_is_archived_and_activated(muster: FakeMuster) -> None:
    muster.answers[f"DELETE {PATH}/orders"] = httpx.Response(204)
    assert "is archived" in muster.run("collections", "archive", "orders", "--yes").stdout
    muster.answers[f"POST {PATH}/orders/activate"] = ORDERS
    activated = muster.run("collections", "activate", "orders").stdout
    assert activated == "Collection orders is active.\n"
