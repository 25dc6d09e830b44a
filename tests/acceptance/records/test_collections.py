"""Collections over HTTP and at the terminal: from the first definition to the archive."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id
from tests.support.shop import CliTenant
from tests.support.tenants import client, create_key

COLLECTIONS = "/control/collections"
NAME: dict[str, Any] = {"name": "name", "type": "STRING", "required": True, "max": 100}


def new_name() -> str:
    return f"c-{new_id()}"


def create(product: Product, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"name": new_name(), "fields": list(fields) or [NAME], **more}
    reply = product.http.post(COLLECTIONS, json=body)
    assert reply.status_code == 201, reply.text
    assert reply.headers["ETag"] == '"1"'
    document: dict[str, Any] = reply.json()
    return document


def change(product: Product, made: dict[str, Any], version: str, **body: Any) -> httpx.Response:
    path = f"{COLLECTIONS}/{made['name']}"
    return product.http.patch(path, json=body, headers={"If-Match": version})


def test_a_collection_from_its_beginning_to_its_end(product: Product) -> None:
    total = {"name": "total", "type": "FORMULA", "formula": "price * quantity"}
    price = {"name": "price", "type": "CURRENCY", "min": 0}
    quantity = {"name": "quantity", "type": "INTEGER", "default": 1, "indexed": True}
    made = create(product, NAME, price, quantity, total, description="What was ordered")
    path = f"{COLLECTIONS}/{made['name']}"
    assert made["fields"] == [NAME, price, quantity, total]
    assert (made["version"], made["status"], made["indexBuilding"]) == (1, "ACTIVE", False)
    for name in (made["name"], made["id"]):
        shown = product.http.get(f"{COLLECTIONS}/{name}")
        assert (shown.json(), shown.headers["ETag"]) == (made, '"1"')
    changed = change(product, made, '"1"', fields=[NAME, price], note="simpler")
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert changed.json()["fields"] == [NAME, price]
    assert changed.json()["description"] == "What was ordered"
    body = {"fields": [NAME], "description": None}
    replaced = product.http.put(path, json=body, headers={"If-Match": '"2"'}).json()
    assert (replaced["version"], replaced["description"]) == (3, None)
    same = product.http.put(path, json=body, headers={"If-Match": "*"}).json()
    assert same["version"] == 3
    listed = product.http.get(f"{path}/versions", params={"limit": 2}).json()
    assert [(one["version"], one["note"]) for one in listed["items"]] == [(3, None), (2, "simpler")]
    rest = product.http.get(f"{path}/versions", params={"cursor": listed["nextCursor"]}).json()
    assert [one["version"] for one in rest["items"]] == [1]
    first = product.http.get(f"{path}/versions/1").json()
    assert (first["version"], first["fields"]) == (1, made["fields"])
    assert_problem(product.http.get(f"{path}/versions/9"), 404, "version_not_found")
    assert product.http.delete(path).status_code == 204
    assert product.http.get(path).json()["status"] == "ARCHIVED"
    assert_problem(change(product, made, "*", description="x"), 409, "collection_archived")
    again = product.http.post(COLLECTIONS, json={"name": made["name"], "fields": [NAME]})
    assert_problem(again, 409, "name_exists")
    assert product.http.post(f"{path}/activate").json()["status"] == "ACTIVE"


def test_a_change_names_the_version_it_is_for(product: Product) -> None:
    made = create(product)
    path = f"{COLLECTIONS}/{made['name']}"
    body = {"fields": [NAME, {"name": "more", "type": "DATE"}]}
    for method in ("PUT", "PATCH"):
        without = product.http.request(method, path, json=body)
        assert_problem(without, 428, "precondition_required")
        odd = product.http.request(method, path, json=body, headers={"If-Match": "1"})
        assert faulty_fields(assert_problem(odd, 422, "invalid")) == {"If-Match"}
        stale = product.http.request(method, path, json=body, headers={"If-Match": '"2"'})
        assert_problem(stale, 412, "version_changed")
    assert product.http.get(path).json() == made


def test_a_name_does_not_change(product: Product) -> None:
    made = create(product)
    path, tag = f"{COLLECTIONS}/{made['name']}", {"If-Match": "*"}
    same = product.http.put(path, json={"name": made["name"], "fields": [NAME]}, headers=tag)
    assert same.status_code == 200
    other = product.http.put(path, json={"name": "other", "fields": [NAME]}, headers=tag)
    assert faulty_fields(assert_problem(other, 422, "invalid")) == {"name"}


def test_what_others_refer_to_stays(product: Product) -> None:
    orders = create(product)
    amount = {"name": "amount", "type": "CURRENCY"}
    up = {"name": "order_id", "type": "MASTER_DETAIL", "target": orders["name"]}
    lines = create(product, up, amount)
    rollup = {
        "collection": lines["name"],
        "relationship": "order_id",
        "function": "SUM",
        "field": "amount",
    }
    total = {"name": "total", "type": "ROLLUP_SUMMARY", "rollup": rollup}
    changed = change(product, orders, '"1"', fields=[NAME, total])
    assert changed.json()["fields"] == [NAME, total]
    in_use = product.http.delete(f"{COLLECTIONS}/{orders['name']}")
    assert_problem(in_use, 409, "collection_in_use")
    needed = change(product, lines, '"1"', fields=[up])
    problem = assert_problem(needed, 422, "invalid")
    assert f"{orders['name']}.total" in problem["detail"]


def test_all_that_is_wrong_is_told_at_once(product: Product) -> None:
    fields = [
        {"name": "1st", "type": "STRING"},
        {"name": "up", "type": "LOOKUP", "target": "no-such"},
        {"name": "kind", "type": "PICKLIST"},
        {"name": "age", "type": "INTEGER", "default": "old", "pattern": "x"},
        {"name": "code", "type": "STRING", "pattern": "("},
        {"name": "sum", "type": "FORMULA", "formula": "age + nothing"},
        {"name": "loop", "type": "FORMULA", "formula": "loop + 1"},
        {"name": "up", "type": "DATE"},
    ]
    reply = product.http.post(COLLECTIONS, json={"name": new_name(), "fields": fields})
    problem = assert_problem(reply, 422, "invalid")
    assert faulty_fields(problem) == {
        "fields[0].name",
        "fields[1].target",
        "fields[2].values",
        "fields[3].pattern",
        "fields[4].pattern",
        "fields[5].formula",
        "fields[6].formula",
        "fields[7].name",
    }


DEEP = '{"a":' * 10_000 + "1" + "}" * 10_000
HOSTILE = {
    "ten thousand fields": json.dumps([{"name": f"f{i}", "type": "DATE"} for i in range(10_000)]),
    "NUL in a name": '[{"name": "a\\u0000", "type": "DATE"}]',
    "NUL in a value": '[{"name": "a", "type": "PICKLIST", "values": ["\\u0000"]}]',
    "NUL in a default": '[{"name": "a", "type": "STRING", "default": "\\u0000"}]',
    "NUL in a formula": '[{"name": "a", "type": "FORMULA", "formula": "\'\\u0000\'"}]',
    "lone surrogate": '[{"name": "a", "type": "STRING", "default": "\\ud800"}]',
    "lone surrogate in a name": '[{"name": "\\ud800", "type": "STRING"}]',
    "depth": f'[{{"name": "a", "type": "JSON", "default": {DEEP}}}]',
    "huge number": f'[{{"name": "a", "type": "LONG", "default": {"9" * 400}}}]',
    "number without end": f'[{{"name": "a", "type": "LONG", "max": {"9" * 5_000}}}]',
    "infinite bound": '[{"name": "a", "type": "DOUBLE", "max": 1e999}]',
    "infinite default": '[{"name": "a", "type": "JSON", "default": [1e999]}]',
    "beyond doubles": '[{"name": "a", "type": "DOUBLE", "default": 9007199254740993}]',
    "unknown type": '[{"name": "a", "type": "BLOB"}]',
    "unknown setting": '[{"name": "a", "type": "DATE", "nullable": true}]',
    "text as a flag": '[{"name": "a", "type": "DATE", "required": "yes"}]',
    "no fields": "[]",
    "no list": '{"name": "a"}',
    "costly pattern": '[{"name": "a", "type": "STRING", "pattern": "((a{100}){100}){100}"}]',
    "backtracking pattern": '[{"name": "a", "type": "STRING", "pattern": "(?=a)b"}]',
    "costly formula": json.dumps(
        [{"name": "a", "type": "FORMULA", "formula": " + ".join(["UPPER('a')"] * 300)}]
    ),
    "deep formula": json.dumps([{"name": "a", "type": "FORMULA", "formula": "(" * 3_000}]),
    "code": json.dumps([{"name": "a", "type": "FORMULA", "formula": "__import__('os')"}]),
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_hostile_definitions_are_refused_by_their_place(product: Product, fields: str) -> None:
    name = new_name()
    body = f'{{"name": "{name}", "fields": {fields}}}'.encode("utf-8", "surrogatepass")
    headers = {"Content-Type": "application/json"}
    reply = product.http.post(COLLECTIONS, content=body, headers=headers)
    assert reply.status_code in {400, 422}, reply.text
    code = "malformed_json" if reply.status_code == 400 else "invalid"
    problem = assert_problem(reply, reply.status_code, code)
    if code == "invalid":
        assert all(one.startswith("fields") for one in faulty_fields(problem))
    assert_problem(product.http.get(f"{COLLECTIONS}/{name}"), 404, "collection_not_found")


def test_a_body_that_is_too_large_is_refused(product: Product) -> None:
    long = {"name": "a", "type": "JSON", "default": "x" * 300_000}
    reply = product.http.post(COLLECTIONS, json={"name": new_name(), "fields": [long]})
    assert "256 KB" in assert_problem(reply, 422, "invalid")["detail"]
    longer = {**long, "default": "x" * 20_000_000}
    reply = product.http.post(COLLECTIONS, json={"name": new_name(), "fields": [longer]})
    assert reply.status_code == 413


def test_a_preview_changes_nothing(product: Product) -> None:
    made = create(product)
    path = f"{COLLECTIONS}/{made['name']}"
    fields = [{**NAME, "unique": True}, {"name": "more", "type": "DATE"}]
    seen = product.http.post(f"{path}/preview", json={"fields": fields}).json()
    assert (seen["breaking"], seen["recordsChecked"], seen["complete"]) == (True, 0, True)
    assert [(one["field"], one["kind"], one["severity"]) for one in seen["changes"]] == [
        ("name", "unique", "breaking"),
        ("more", "added", "notice"),
    ]
    wrong = product.http.post(f"{path}/preview", json={"fields": [{"name": "1", "type": "DATE"}]})
    assert faulty_fields(assert_problem(wrong, 422, "invalid")) == {"fields[0].name"}
    assert product.http.get(path).json() == made


def test_a_listing_goes_by_name(product: Product) -> None:
    names = sorted(create(product)["name"] for _ in range(3))
    seen: list[str] = []
    cursor: str | None = None
    while cursor is not None or not seen:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = product.http.get(COLLECTIONS, params=params).json()
        seen += [one["name"] for one in page["items"]]
        cursor = page["nextCursor"]
        assert all("fields" not in one and one["fieldCount"] > 0 for one in page["items"])
    assert seen == sorted(seen)
    assert set(names) <= set(seen)
    assert page["total"] == len(seen)


def test_a_key_needs_the_permission(product: Product) -> None:
    made = create(product)
    path = f"{COLLECTIONS}/{made['name']}"
    with client(product, create_key(product, ["collections:read"])["key"]) as reader:
        assert reader.get(path).status_code == 200
        assert_problem(reader.post(f"{path}/preview", json={"fields": [NAME]}), 403, "forbidden")
        assert_problem(reader.delete(path), 403, "forbidden")
        assert_problem(reader.post(COLLECTIONS, json={}), 403, "forbidden")
    with client(product, create_key(product, ["records:read"])["key"]) as reader:
        assert reader.post(f"{path}/preview", json={"fields": [NAME]}).status_code == 200
    with client(product, create_key(product, ["records:write"])["key"]) as writer:
        assert_problem(writer.get(path), 403, "forbidden")


def test_collections_are_counted(stranger: Product) -> None:
    used = {one["name"]: one for one in stranger.http.get("/api/quotas").json()["items"]}
    before = used["collections"]["used"]
    create(stranger)
    used = {one["name"]: one for one in stranger.http.get("/api/quotas").json()["items"]}
    assert used["collections"]["used"] == before + 1


# At the terminal


def test_the_life_of_a_collection_as_a_file(shop: CliTenant, tmp_path: Path) -> None:
    name, file = new_name(), tmp_path / "orders.json"
    body: dict[str, Any] = {"name": name, "fields": [NAME]}
    file.write_text(json.dumps(body))
    apply = ("collections", "apply", "-f", str(file))
    assert shop.run(*apply).stdout == f"Collection {name}: version 1.\n"
    assert shop.run(*apply).stdout == f"Collection {name}: its fields are as before.\n"
    file.write_text(shop.run("collections", "export", name).stdout)
    exported = json.loads(file.read_text())
    assert (exported["version"], exported["fields"]) == (1, [NAME])
    exported["fields"].append({"name": "sent", "type": "DATE", "indexed": True})
    file.write_text(json.dumps(exported))
    told = shop.run("collections", "preview", "-f", str(file)).stdout
    assert re.search(r"sent +notice", told)
    assert "0 of all 0 records do not fit." in told
    changed = shop.run(*apply, "--note", "when it was sent").stdout
    assert changed == f"Collection {name}: version 2.\n"
    assert "another version by now" in shop.refused(*apply)
    shown = shop.run("collections", "show", name).stdout
    assert re.search(r"name +STRING +required, max 100", shown)
    assert re.search(r"sent +DATE +indexed", shown)
    assert "sent" not in shop.run("collections", "show", name, "-v", "1").stdout
    assert "when it was sent" in shop.run("collections", "versions", name).stdout
    assert re.search(rf"{name} +2 +2 +ACTIVE", shop.run("collections", "list").stdout)
    assert shop.run("collections", "archive", name).stdout == f"Collection {name} is archived.\n"
    assert shop.run("collections", "activate", name).stdout == f"Collection {name} is active.\n"
    missing = shop.refused("collections", "show", "no-such")
    assert missing == "There is no collection no-such: see `muster collections list`."
