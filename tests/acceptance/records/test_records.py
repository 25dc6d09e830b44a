"""Records over HTTP and at the terminal: written once, read by many, never lost."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id
from tests.support.shop import CliTenant
from tests.support.tenants import in_database

ORDER_FIELDS: list[dict[str, Any]] = [
    {"name": "name", "type": "STRING", "required": True, "max": 100, "pattern": "[^<>]*"},
    {"name": "code", "type": "EXTERNAL_ID", "unique": True, "indexed": True},
    {"name": "status", "type": "PICKLIST", "values": ["open", "paid"], "default": "open",
     "indexed": True},
    {"name": "total", "type": "CURRENCY", "min": 0, "indexed": True},
    {"name": "pieces", "type": "INTEGER"},
    {"name": "price", "type": "FORMULA", "formula": "total / pieces"},
    {"name": "number", "type": "AUTO_NUMBER", "format": "O-{0000}"},
    {"name": "card", "type": "ENCRYPTED"},
    {"name": "big", "type": "LONG"},
    {"name": "half", "type": "DOUBLE"},
    {"name": "more", "type": "JSON"},
]  # fmt: skip
ORDER = {"name": "Jo", "total": 10, "pieces": 4}


@dataclass
class Orders:
    """A collection of orders, and one of their lines."""

    http: httpx.Client
    name: str
    lines: str

    @property
    def path(self) -> str:
        return f"/api/collections/{self.name}/records"

    @property
    def line_path(self) -> str:
        return f"/api/collections/{self.lines}/records"

    def create(self, **fields: Any) -> dict[str, Any]:
        made = self.http.post(self.path, json={**ORDER, **fields})
        assert made.status_code == 201, made.text
        document: dict[str, Any] = made.json()
        assert made.headers["Location"] == f"{self.path}/{document['id']}"
        assert made.headers["ETag"] == f'"{document["version"]}"'
        return document

    def ids(self, **params: Any) -> list[str]:
        """List all pages."""
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            reply = self.http.get(self.path, params={**params, **cursor})
            assert reply.status_code == 200, reply.text
            found += [one["id"] for one in reply.json()["items"]]
            if reply.json()["nextCursor"] is None:
                return found
            cursor = {"cursor": reply.json()["nextCursor"]}


def define(http: httpx.Client, name: str, fields: list[dict[str, Any]]) -> str:
    reply = http.post("/control/collections", json={"name": name, "fields": fields})
    assert reply.status_code == 201, reply.text
    return name


def make_orders(http: httpx.Client) -> Orders:
    name = define(http, f"orders-{new_id()}", ORDER_FIELDS)
    master = {"name": "order", "type": "MASTER_DETAIL", "target": name, "required": True}
    return Orders(http, name, define(http, f"lines-{new_id()}", [master]))


@pytest.fixture
def orders(product: Product) -> Orders:
    return make_orders(product.http)


def test_a_record_from_its_beginning_to_its_end(orders: Orders) -> None:
    made = orders.create(code="c1")
    assert (made["status"], made["price"], made["number"]) == ("open", 2.5, "O-0001")
    path = f"{orders.path}/{made['id']}"
    shown = orders.http.get(path)
    assert (shown.json(), shown.headers["ETag"]) == (made, '"1"')
    changed = orders.http.patch(path, json={"total": 20, "code": None})
    assert (changed.status_code, changed.headers["ETag"]) == (200, '"2"')
    assert (changed.json()["price"], changed.json().get("code")) == (5, None)
    again = orders.http.patch(path, json={"total": 20})
    assert again.json()["version"] == 2
    back = orders.http.put(path, json={**changed.json(), "name": "Al"}).json()
    assert (back["version"], back["name"], back["number"]) == (3, "Al", "O-0001")
    old = orders.http.get(path, params={"asOf": 1})
    assert (old.json()["total"], old.headers["ETag"]) == (10, '"1"')
    assert orders.http.delete(path).status_code == 204
    assert_problem(orders.http.get(path), 404, "record_not_found")
    assert_problem(orders.http.get(path, params={"asOf": 4}), 404, "record_not_found")
    assert_problem(orders.http.patch(path, json={"total": 1}), 404, "record_not_found")
    history = orders.http.get(f"{path}/history", params={"limit": 2}).json()
    assert [(one["version"], one["changeType"]) for one in history["items"]] == [
        (4, "DELETED"),
        (3, "UPDATED"),
    ]
    rest = orders.http.get(f"{path}/history", params={"cursor": history["nextCursor"]}).json()
    update, creation = rest["items"]
    assert update["changedFields"] == ["code", "price", "total"]
    assert update["before"] == {"code": "c1", "price": 2.5, "total": 10}
    assert (creation["changeType"], creation["before"]) == ("CREATED", None)
    assert rest["nextCursor"] is None
    assert orders.create(id=made["id"])["version"] == 5


def test_a_change_may_name_its_version(orders: Orders) -> None:
    made = orders.create()
    path = f"{orders.path}/{made['id']}"
    good = orders.http.patch(path, json={"total": 1}, headers={"If-Match": '"1"'})
    assert good.json()["version"] == 2
    for method in ("PATCH", "PUT", "DELETE"):
        body = None if method == "DELETE" else {**ORDER, "total": 2}
        stale = orders.http.request(method, path, json=body, headers={"If-Match": '"1"'})
        assert_problem(stale, 412, "version_mismatch")
        assert stale.headers["ETag"] == '"2"'
    assert orders.http.delete(path, headers={"If-Match": '"2"'}).status_code == 204


def test_a_value_belongs_to_one_record(orders: Orders) -> None:
    first = orders.create(code="c1")
    clash = orders.http.post(orders.path, json={**ORDER, "code": "c1"})
    assert faulty_fields(assert_problem(clash, 409, "value_not_unique")) == {"code"}
    assert orders.http.delete(f"{orders.path}/{first['id']}").status_code == 204
    second = orders.create(code="c1")
    taken = orders.http.post(orders.path, json={**ORDER, "id": second["id"]})
    assert_problem(taken, 409, "record_exists")


def test_secrets_are_stored_encrypted_and_shown_to_nobody(product: Product, orders: Orders) -> None:
    secret = f"card-{new_id()}"
    made = orders.create(card=secret)
    path = f"{orders.path}/{made['id']}"
    changed = orders.http.patch(path, json={"card": f"{secret}-2"})
    back = orders.http.put(path, json=changed.json())
    pages = [
        orders.http.get(path),
        orders.http.get(f"{path}/history"),
        orders.http.get(orders.path),
    ]
    pages += [orders.http.get(f"{orders.path}/export"), changed, back]
    assert all(secret not in page.text for page in pages)
    assert back.json()["card"] == "•••"

    async def stored(pool: Any) -> list[str]:
        query = "select data::text from records union all select data::text || before::text"
        rows = await pool.fetch(f"{query} from record_changes")
        return [row[0] or "" for row in rows]

    texts = in_database(product, stored)
    assert not any(secret in text for text in texts)
    assert any("enc:1:" in text for text in texts)


def test_a_batch_saves_what_it_can_and_names_the_rest(orders: Orders) -> None:
    kept = orders.create()
    items = [
        {"op": "create", "id": "b1", "fields": ORDER},
        {"op": "create", "fields": {"total": -1, "nmae": "x"}},
        {"op": "merge", "id": kept["id"], "fields": {"total": 30}, "version": 1},
        {"op": "delete", "id": "missing"},
        {"op": "upsert", "id": "b2", "fields": ORDER},
        {"op": "create", "fields": {**ORDER, "pieces": 0}},
    ]
    reply = orders.http.post(f"{orders.path}/batch", json={"items": items})
    assert reply.status_code == 200, reply.text
    found = reply.json()
    assert (found["saved"], found["failed"]) == (3, 3)
    assert [one["index"] for one in found["items"]] == list(range(6))
    assert [one.get("version") for one in found["items"]] == [1, None, 2, None, 1, None]
    wrong, gone, divided = (found["items"][index]["problem"] for index in (1, 3, 5))
    assert {one["field"] for one in wrong["errors"]} == {"total", "nmae", "name"}
    assert (gone["status"], gone["code"]) == (404, "record_not_found")
    assert "division by zero" in divided["errors"][0]["expected"]
    assert sorted(orders.ids()) == sorted(["b1", "b2", kept["id"]])


def test_an_atomic_batch_saves_all_or_none(orders: Orders) -> None:
    good = {"op": "create", "id": "a1", "fields": ORDER}
    bad = {"op": "create", "id": "a2", "fields": {"total": -1}}
    late = {"op": "merge", "id": "missing", "fields": {"total": 1}}
    atomic = {"params": {"atomic": "true"}}
    refused = orders.http.post(f"{orders.path}/batch", json={"items": [good, bad]}, **atomic)
    problem = assert_problem(refused, 422, "invalid_record")
    assert faulty_fields(problem) == {"items[1].total", "items[1].name"}
    refused = orders.http.post(f"{orders.path}/batch", json={"items": [good, late]}, **atomic)
    assert_problem(refused, 404, "record_not_found")
    twice = orders.http.post(f"{orders.path}/batch", json={"items": [good, good]}, **atomic)
    assert faulty_fields(assert_problem(twice, 422, "invalid")) == {"items[1].id"}
    assert orders.ids() == []
    other = {**good, "id": "a2"}
    saved = orders.http.post(f"{orders.path}/batch", json={"items": [good, other]}, **atomic)
    assert saved.json()["saved"] == 2
    assert orders.ids() == ["a1", "a2"]


def test_listings_filter_sort_and_page(orders: Orders) -> None:
    items = [
        {"op": "create", "id": f"r{n:03}", "fields": {**ORDER, "total": 500 - n, "code": f"k{n}",
         "status": "paid" if n % 10 == 0 else "open"}}
        for n in range(300)
    ]  # fmt: skip
    assert orders.http.post(f"{orders.path}/batch", json={"items": items}).json()["saved"] == 300
    everything = [f"r{n:03}" for n in range(300)]
    assert orders.ids(limit=70) == everything
    assert orders.ids(sort="total", limit=70) == everything[::-1]
    assert orders.ids(status="paid") == everything[::10]
    assert orders.ids(**{"total.gte": 495, "sort": "-total"}) == everything[:6]
    assert orders.ids(**{"pieces.gt": 4}) == []
    assert orders.ids(code="k7") == ["r007"]
    wrong = orders.http.get(orders.path, params={"sort": "name"})
    assert faulty_fields(assert_problem(wrong, 422, "invalid")) == {"sort"}
    unknown = orders.http.get(orders.path, params={"nmae": "x"})
    assert "did you mean name?" in assert_problem(unknown, 422, "invalid")["detail"]
    for cursor in ("x", "WyJhIl0=", "e30="):
        odd = orders.http.get(orders.path, params={"cursor": cursor})
        assert faulty_fields(assert_problem(odd, 422, "invalid")) == {"cursor"}


def test_details_need_their_master_and_go_with_it(orders: Orders) -> None:
    orphan = orders.http.post(orders.line_path, json={"order": "nobody"})
    assert faulty_fields(assert_problem(orphan, 422, "invalid_record")) == {"order"}
    master = orders.create()["id"]
    items = [{"op": "create", "fields": {"order": master}} for _ in range(150)]
    saved = orders.http.post(f"{orders.line_path}/batch", json={"items": items})
    assert saved.json()["saved"] == 150
    assert orders.http.delete(f"{orders.path}/{master}").status_code == 204
    assert orders.http.get(orders.line_path).json()["items"] == []


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_files_go_out_and_come_in_again(shop: CliTenant, form: str, tmp_path: Path) -> None:
    orders = make_orders(shop.product.http)
    for n in range(3):
        orders.create(id=f"f{n}", name=f'=sum, "{n}"', more={"a": [n]}, big=2**53 + 1)
    file = tmp_path / f"orders.{form}"
    shop.run("records", "export", orders.name, "--format", form, "--output", str(file))
    before = [orders.http.get(f"{orders.path}/f{n}").json() for n in range(3)]
    for n in range(3):
        orders.http.patch(f"{orders.path}/f{n}", json={"name": "changed", "more": None})
    done = shop.read("records", "import", orders.name, str(file))
    assert done == {"saved": 3, "failed": 0, "errors": []}
    after = [orders.http.get(f"{orders.path}/f{n}").json() for n in range(3)]
    system = {"version", "updatedAt", "updatedBy"}
    for old, new in zip(before, after, strict=True):
        assert {k: v for k, v in old.items() if k not in system} == {
            k: v for k, v in new.items() if k not in system
        }


def test_lines_that_are_refused_are_named_and_keep_no_others(
    shop: CliTenant, tmp_path: Path
) -> None:
    orders = make_orders(shop.product.http)
    rows = [{"id": f"i{n}", "name": "x", "total": 1, "pieces": 1} for n in range(1_200)]
    rows[700] |= {"total": -1, "nmae": 1}
    lines = [json.dumps(row) for row in rows]
    lines.insert(1_000, "not json")
    file = tmp_path / "orders.ndjson"
    file.write_text("\n".join(lines))
    done = shop.run("records", "import", orders.name, str(file), "--json", check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["saved"], found["failed"]) == (1, 1_199, 2)
    assert [(one["row"], one["field"]) for one in found["errors"]] == [
        (701, "total"),
        (701, "nmae"),
        (1_001, "line"),
    ]
    assert len(orders.ids(limit=500)) == 1_199


def test_the_commands(shop: CliTenant) -> None:
    orders = make_orders(shop.product.http)
    fields = json.dumps({"id": "t1", **ORDER})
    made = shop.run("records", "create", orders.name, fields).stdout
    assert made.strip() == f"Record t1 of {orders.name} is created."
    changed = shop.run("records", "set", orders.name, "t1", '{"status": "paid"}').stdout
    assert changed.strip() == f"Record t1 of {orders.name}: version 2."
    stale = ("records", "set", orders.name, "t1", '{"total": 1}', "--version", "1")
    assert "another version" in shop.refused(*stale)
    assert shop.read("records", "show", orders.name, "t1")["status"] == "paid"
    assert shop.read("records", "show", orders.name, "t1", "--as-of", "1")["status"] == "open"
    listed = shop.read("records", "list", orders.name, "--where", "status=paid")
    assert [one["id"] for one in listed["items"]] == ["t1"]
    assert "UPDATED" in shop.run("records", "history", orders.name, "t1").stdout
    shop.run("records", "delete", orders.name, "t1", "--yes")
    assert "There is no record t1" in shop.refused("records", "show", orders.name, "t1")
    assert "--format" in shop.refused("records", "import", orders.name, "orders.txt", code=2)


DEEP = b'{"name": "x", "more": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"


@pytest.mark.parametrize(
    ("body", "status", "place"),
    [
        (b'{"name": "a\\u0000b"}', 422, "name"),
        (b'{"name": "x", "more": {"a": ["\\u0000"]}}', 422, "more.a[0]"),
        (b'{"name": "\\ud800"}', 400, None),
        (DEEP, 400, None),
        (b'{"name": "x", "half": 9007199254740993}', 422, "half"),
        (b'{"name": "x", "big": 9223372036854775808}', 422, "big"),
        (b'{"name": "' + b"x" * 20_000_000 + b'"}', 413, None),
        (b'{"name": "x", "colour": 1}', 422, "colour"),
        (b'{"name": "x", "total": 1, "pieces": 0}', 422, "price"),
        (b'{"name": "x", "more": "' + b"y" * 300_000 + b'"}', 422, "record"),
        (b"[]", 422, "body"),
        (b"{", 400, None),
        (b"", 400, None),
        (b'{"name": "x", "id": "a/b"}', 422, "id"),
        (b'{"name": "x", "id": 5}', 422, "id"),
        (b'{"name": "<b>"}', 422, "name"),
        (b'{"name": "x", "price": 5}', 422, "price"),
        (b'{"name": "x", "version": 5}', 422, "version"),
    ],
    ids=lambda value: value[:40].decode("utf-8", "replace") if isinstance(value, bytes) else None,
)
def test_bad_input_is_refused_and_harms_nobody(
    orders: Orders, body: bytes, status: int, place: str | None
) -> None:
    """What is refused names its place, and what is good beside it is saved."""
    headers = {"Content-Type": "application/json"}
    reply = orders.http.post(orders.path, content=body, headers=headers)
    assert reply.status_code == status, reply.text[:500]
    assert reply.headers["Content-Type"] == "application/problem+json"
    if place is not None:
        assert place in {one["field"] for one in reply.json()["errors"]}
    if status == 422 and place not in {"body", "id"}:
        item = b'{"op": "create", "fields": ' + body + b"}"
        good = json.dumps({"op": "create", "fields": ORDER}).encode()
        batch = b'{"items": [' + b",".join([good, item, good]) + b"]}"
        found = orders.http.post(f"{orders.path}/batch", content=batch, headers=headers).json()
        assert (found["saved"], found["failed"]) == (2, 1)
        assert place in {one["field"] for one in found["items"][1]["problem"]["errors"]}
    orders.create()


def test_a_kept_long_number_is_exact(orders: Orders) -> None:
    made = orders.create(big=2**53 + 1, more={"n": 2**53 + 1})
    text = orders.http.get(f"{orders.path}/{made['id']}").text
    assert text.count("9007199254740993") == 2


def test_an_archived_collection_can_be_read_only(orders: Orders) -> None:
    made = orders.create()
    assert orders.http.delete(f"/control/collections/{orders.lines}").status_code == 204
    assert orders.http.delete(f"/control/collections/{orders.name}").status_code == 204
    assert_problem(orders.http.post(orders.path, json=ORDER), 409, "collection_archived")
    assert orders.http.get(f"{orders.path}/{made['id']}").status_code == 200


def test_the_demo_ends_as_expected_and_leaves_nothing_in_use(shop: CliTenant) -> None:
    told = shop.read("demo", "records", "--fast")
    assert told["ok"], told
    assert [scene["scene"] for scene in told["scenes"]] == [
        "save", "errors", "unique", "versions", "batch", "details",
    ]  # fmt: skip
    listed = shop.product.http.get(
        "/control/collections", params={"status": "ACTIVE", "limit": 500}
    )
    assert "demo-orders" not in listed.text
