"""Secrets of a running instance: in no column, no log and no file that others can read."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from host.paths import instance_paths
from host.postgres import embedded
from tests.support.plain_secrets import find_plain
from tests.support.product import BOTH, Product, new_id, running_product, until

MARKER = "hunter22hunter22hunter22"
SECRET = "whsec_aHVudGVyMjJodW50ZXIyMmh1bnRlcjIy"  # of the marker
AUTH = {"type": "bearer", "token": MARKER}
HEADERS = {"X-Own-Key": MARKER}


def exercise(product: Product) -> str:
    """Have one of each secret stored, used and refused; the code of the subscription."""
    code = f"code-{new_id()}"
    made = product.http.post(
        "/api/subscriptions",
        json={
            "code": code,
            "name": "Orders",
            "eventTypes": [{"eventTypeCode": "shop:secrets:order:created"}],
            "target": f"{product.url}/api/sample/webhook",
            "auth": AUTH,
            "headers": HEADERS,
            "secret": SECRET,
        },
    )
    assert made.status_code == 201, made.text
    put = product.http.put(
        "/api/resources/shop",
        json={"url": f"{product.url}/api/sample/webhook", "auth": AUTH, "headers": HEADERS},
    )
    assert put.status_code in (200, 201), put.text
    job = product.http.post(
        "/api/dispatch/jobs",
        json={
            "code": "shop:secrets:order:ship",
            "source": "test",
            "targetUrl": f"{product.url}/api/sample/webhook",
            "payload": "{}",
            "auth": AUTH,
            "headers": HEADERS,
        },
    )
    assert job.status_code == 201, job.text
    gather = product.http.post(
        "/api/gathers",
        json={
            "resources": [
                "shop",
                {"name": "inline", "url": "http://127.0.0.1:9/", "headers": HEADERS},
            ],
            "mode": "wait",
            "timeoutMs": 1_000,
        },
    )
    assert gather.status_code == 200, gather.text
    # What is refused may be logged, and is told to nobody else.
    product.http.post("/api/subscriptions", json={"code": 1, "auth": AUTH, "secret": SECRET})
    product.http.put("/api/resources/bad", json={"url": "x", "auth": AUTH})
    product.http.get("/api/keys", headers={"Authorization": f"Bearer mk_{MARKER}_{MARKER}"})
    event = {
        "specversion": "1.0",
        "id": new_id(),
        "type": "shop:secrets:order:created",
        "source": "test",
        "data": {},
    }
    sent = product.http.post(
        "/api/events", json=event, headers={"Content-Type": "application/cloudevents+json"}
    )
    assert sent.status_code in (200, 201, 202), sent.text
    return code


def jobs_done(product: Product) -> bool:
    found = product.http.get("/api/dispatch/jobs", params={"size": 100}).json()["items"]
    return bool(found) and all(job["status"] == "COMPLETED" for job in found)


def secrets_of(product: Product) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(product.cli("secrets", "status", "--json").stdout)
    return told


def test_secrets_are_in_no_column_log_or_open_file(mortal: Product) -> None:
    product, data_dir = mortal, mortal.data_dir
    code = exercise(product)
    until("every job is delivered", lambda: jobs_done(product))
    server = embedded.running(data_dir)
    assert server is not None
    assert asyncio.run(find_plain(server.dsn, MARKER)) == []
    (old,) = secrets_of(product)["keys"]
    assert old["secrets"] > 4
    told = product.cli("secrets", "rotate-key").stdout
    assert f"Key {old['keyId']} encrypts nothing any more" in told
    new, kept = secrets_of(product)["keys"]
    assert (new["role"], kept["keyId"], kept["secrets"]) == ("encrypts", old["keyId"], 0)
    assert new["secrets"] >= old["secrets"]
    # Every process goes on with what was encrypted anew.
    shown = product.http.get(f"/api/subscriptions/{code}/secret")
    assert shown.json()["secret"] == SECRET
    exercise(product)
    until("every job is delivered", lambda: jobs_done(product))
    product.cli("secrets", "remove-key", old["keyId"])
    assert len(secrets_of(product)["keys"]) == 1
    refused = product.cli("secrets", "remove-key", new["keyId"], check=False)
    assert refused.returncode == 1
    assert "rotate-key` first" in refused.stderr
    check_files(data_dir, instance_paths(data_dir).run_dir)


def check_files(*folders: Path) -> None:
    """No log has a secret in it, and nobody else can come near what does."""
    logs = 0
    for folder in folders:
        assert folder.stat().st_mode & 0o077 == 0, folder
        for path in _files(folder):
            if path.suffix in {".log", ".out", ".err", ".txt", ".json"} or "logs" in path.parts:
                logs += 1
                text = path.read_bytes()
                assert MARKER.encode() not in text, path
                assert SECRET.removeprefix("whsec_").encode() not in text, path
    assert logs > 3
    for name in ("secret_key", "admin.key", "postgres.password", "ray-token", "muster.log"):
        path = folders[0] / name
        assert path.stat().st_mode & 0o177 == 0, path


def _files(folder: Path) -> list[Path]:
    return [
        Path(where, name)
        for where, _, names in os.walk(folder)
        if "postgres" not in Path(where).parts
        for name in names
        if Path(where, name).is_file()
    ]


@pytest.mark.ends_instance
def test_an_instance_that_lost_its_key_does_not_start_and_with_it_goes_on_with_the_same_data(
    mortal: Product, tmp_path: Path
) -> None:
    """The instance ends here, and the next one takes its folder."""
    exercise(mortal)
    wait = mortal.register(BOTH | {"timeout": 3_600})  # it outlasts two starts, however slow
    mortal.callback(wait, {"kept": 1})
    short = mortal.register(BOTH | {"timeout": 1})
    data_dir = mortal.data_dir
    key = data_dir / "secret_key"
    used = next(one for one in secrets_of(mortal)["keys"] if one["role"] == "encrypts")
    mortal.cli("down")
    check_files(data_dir)  # with Ray's logs, which are kept
    lost = key.rename(tmp_path / "lost")
    with pytest.raises(AssertionError, match=used["keyId"]), running_product(data_dir):
        pass
    assert not key.exists(), "no other key is left in its place"
    lost.rename(key)
    with running_product(data_dir) as second:
        assert second.key == mortal.key
        assert second.pid != mortal.pid
        assert second.event(wait)["waitStatus"] == "completed"
        assert second.show(wait)["output"]["api_response"] == {"kept": 1}
        assert second.show(short, wait=20)["status"] == "timeout"
