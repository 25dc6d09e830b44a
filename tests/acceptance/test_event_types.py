"""Event types from their first draft to their end, and schemas of every kind, over HTTP."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id
from tests.support.tenants import create_key

TYPES, SCHEMAS = "/api/event-types", "/api/schemas"
ORDER = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
XSD = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
    '<xs:element name="order" type="xs:string"/></xs:schema>'
)
PROTO = 'syntax = "proto3";\nmessage Order { string id = 1; }\n'
KINDS = {
    "JSON_SCHEMA": (json.dumps(ORDER), "application/json", "application/schema+json"),
    "XSD": (XSD, "application/xml", "application/xml"),
    "PROTO": (PROTO, "application/x-protobuf", "text/plain; charset=utf-8"),
}


def new_code(application: str = "shop") -> str:
    return f"{application}:s{new_id()[:12]}:order:created"


def create(product: Product, code: str | None = None, **more: Any) -> dict[str, Any]:
    body = {"code": code or new_code(), "name": "Order created", **more}
    reply = product.http.post(TYPES, json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def add(product: Product, code: str, version: str = "1.0", **more: Any) -> dict[str, Any]:
    body = {"version": version, **(more or {"schema": ORDER})}
    reply = product.http.post(f"{TYPES}/{code}/schemas", json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def step(product: Product, code: str, version: str, verb: str) -> httpx.Response:
    return product.http.post(f"{TYPES}/{code}/schemas/{version}/{verb}")


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return {one["version"]: one["status"] for one in document["specVersions"]}


@pytest.fixture
def code(product: Product) -> str:
    """A type without versions."""
    made: str = create(product)["code"]
    return made


# The life of a type


def test_a_type_from_its_first_draft_to_its_end(product: Product) -> None:
    made = create(product, description="once", validation="warn", clientScoped=True)
    code = made["code"]
    assert made["id"].startswith("evt_")
    assert len(made["id"]) == 17
    segments = [made[part] for part in ("application", "subdomain", "aggregate", "event")]
    assert segments == code.split(":")
    assert (made["status"], made["source"], made["validation"]) == ("CURRENT", "API", "warn")
    assert made["specVersions"] == []
    assert product.http.get(f"{TYPES}/{code}").json() == made
    assert product.http.get(f"{TYPES}/{made['id']}").json() == made

    assert statuses(add(product, code)) == {"1.0": "FINALISING"}
    assert statuses(step(product, code, "1.0", "finalise").json()) == {"1.0": "CURRENT"}
    add(product, code, "1.1")
    add(product, code, "2.0")
    step(product, code, "2.0", "finalise")
    moved = step(product, made["id"], "1.1", "finalise").json()
    assert statuses(moved) == {"1.0": "DEPRECATED", "1.1": "CURRENT", "2.0": "CURRENT"}

    assert_problem(product.http.post(f"{TYPES}/{code}/archive"), 409, "versions_not_deprecated")
    assert_problem(product.http.delete(f"{TYPES}/{code}"), 409, "cannot_delete")
    for version in ("1.1", "2.0"):
        assert step(product, code, version, "deprecate").status_code == 200
    assert product.http.post(f"{TYPES}/{code}/archive").json()["status"] == "ARCHIVED"
    assert_problem(product.http.post(f"{TYPES}/{code}/archive"), 409, "already_archived")
    late = product.http.post(f"{TYPES}/{code}/schemas", json={"version": "3.0", "schema": ORDER})
    assert_problem(late, 409, "invalid_status")
    assert product.http.delete(f"{TYPES}/{code}").status_code == 204
    assert_problem(product.http.get(f"{TYPES}/{code}"), 404, "event_type_not_found")
    assert create(product, code)["specVersions"] == []  # the code is free again


def test_steps_that_are_not_allowed_are_told_by_their_code(product: Product, code: str) -> None:
    taken = product.http.post(TYPES, json={"code": code, "name": "again"})
    assert_problem(taken, 409, "code_exists")
    assert_problem(step(product, code, "1.0", "finalise"), 404, "version_not_found")
    add(product, code)
    twice = product.http.post(f"{TYPES}/{code}/schemas", json={"version": "01.0", "schema": {}})
    assert_problem(twice, 409, "version_exists")
    assert_problem(step(product, code, "1.0", "deprecate"), 409, "cannot_deprecate_finalising")
    step(product, code, "1.0", "finalise")
    assert_problem(step(product, code, "1.0", "finalise"), 409, "invalid_status")
    step(product, code, "1.0", "deprecate")
    assert_problem(step(product, code, "1.0", "deprecate"), 409, "already_deprecated")
    for verb in ("finalise", "deprecate"):
        assert_problem(step(product, new_code(), "1.0", verb), 404, "event_type_not_found")
    assert_problem(product.http.get(f"{TYPES}/{code}/schemas/9.9"), 404, "version_not_found")


def test_a_draft_is_rewritten_until_it_is_final(product: Product, code: str) -> None:
    add(product, code)
    path = f"{TYPES}/{code}/schemas/1.0"
    changed = product.http.put(path, json={"schema": PROTO, "schemaType": "PROTO"})
    assert changed.status_code == 200
    shown = product.http.get(path).json()
    assert (shown["schema"], shown["schemaType"]) == (PROTO, "PROTO")
    assert (shown["mimeType"], shown["code"]) == ("application/x-protobuf", code)
    step(product, code, "1.0", "finalise")
    assert_problem(product.http.put(path, json={"schema": ORDER}), 409, "invalid_status")
    missing = product.http.put(f"{TYPES}/{code}/schemas/9.9", json={"schema": ORDER})
    assert_problem(missing, 404, "version_not_found")


def test_words_change_and_the_rest_stays(product: Product) -> None:
    code = create(product, description="once")["code"]
    path = f"{TYPES}/{code}"
    changed = product.http.patch(path, json={"name": "Other", "validation": "off"}).json()
    assert (changed["name"], changed["validation"]) == ("Other", "off")
    assert changed["description"] == "once"
    assert product.http.patch(path, json={"description": None}).json()["description"] is None
    assert_problem(product.http.patch(path, json={}), 422, "invalid")
    refused = assert_problem(product.http.patch(path, json={"clientScoped": True}), 422, "invalid")
    assert faulty_fields(refused) == {"clientScoped"}
    unknown = product.http.patch(f"{TYPES}/{new_code()}", json={"name": "x"})
    assert_problem(unknown, 404, "event_type_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": "a:b:c", "name": "x"},
        {"code": "A:b:c:d", "name": "x"},
        {"code": "a:b:c:*", "name": "x"},
        {"code": "a:b:c:d"},
        {"code": "a:b:c:d", "name": ""},
        {"code": "a:b:c:d", "name": "x" * 101},
        {"code": "a:b:c:d", "name": "x", "description": "x" * 256},
        {"code": "a:b:c:d", "name": "x", "description": "\x00"},
        {"code": "a:b:c:d", "name": "x", "validation": "strict"},
        {"code": "a:b:c:" + "d" * 255, "name": "x"},
    ],
)
def test_a_type_that_breaks_a_rule_is_refused(product: Product, body: dict[str, Any]) -> None:
    assert_problem(product.http.post(TYPES, json=body), 422, "invalid")


# Listings


def test_types_are_listed_page_by_page_and_filtered(product: Product) -> None:
    application = f"a{new_id()[:12]}"
    codes = [f"{application}:{part}:order:created" for part in ("one", "three", "two")]
    for code in reversed(codes):
        create(product, code, source="CODE")
    create(product, f"{application}:one:line:added")
    product.http.post(f"{TYPES}/{codes[2]}/archive")

    def listed(**params: Any) -> list[str]:
        reply = product.http.get(TYPES, params={"application": application, **params})
        assert reply.status_code == 200, reply.text
        return [item["code"] for item in reply.json()["items"]]

    everything = sorted([*codes, f"{application}:one:line:added"])
    assert listed() == everything
    assert listed(subdomain="one", aggregate="order") == [codes[0]]
    assert listed(status="ARCHIVED") == [codes[2]]
    assert listed(source="CODE") == codes
    paged: list[str] = []
    params: dict[str, Any] = {"application": application, "limit": 3}
    while True:
        page = product.http.get(TYPES, params=params).json()
        paged += [item["code"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        params["cursor"] = page["nextCursor"]
    assert paged == everything
    assert_problem(product.http.get(TYPES, params={"cursor": "!"}), 422, "invalid")

    def offered(which: str, **params: str) -> list[str]:
        reply = product.http.get(f"{TYPES}/filters/{which}", params=params)
        items: list[str] = reply.json()["items"]
        return items

    assert application in offered("applications")
    assert offered("subdomains", application=application) == ["one", "three", "two"]
    assert offered("aggregates", application=application) == ["line", "order"]
    assert offered("aggregates", application=application, subdomain="two") == ["order"]
    assert {"one", "three", "two"} <= set(offered("subdomains"))


# Schemas of versions


@pytest.mark.parametrize("kind", KINDS)
def test_consumers_get_the_schema_as_what_it_is(product: Product, code: str, kind: str) -> None:
    text, mime_type, media_type = KINDS[kind]
    add(product, code, schema=text, schemaType=kind)
    path = f"{TYPES}/{code}/schemas/1.0"
    shown = product.http.get(path).json()
    assert (shown["schema"], shown["mimeType"], shown["status"]) == (text, mime_type, "FINALISING")
    raw = product.http.get(path, params={"raw": "true"})
    assert raw.text == text
    assert raw.headers["Content-Type"] == media_type


def test_a_json_schema_may_be_written_as_it_is(product: Product, code: str) -> None:
    add(product, code, schema=ORDER, mimeType="application/vnd.order+json")
    raw = product.http.get(f"{TYPES}/{code}/schemas/1.0", params={"raw": "true"})
    assert raw.json() == ORDER


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("JSON_SCHEMA", "{", "not JSON"),
        ("JSON_SCHEMA", '{"type": "strin"}', "type"),
        ("JSON_SCHEMA", '{"$ref": "http://127.0.0.1:9/x.json"}', "127.0.0.1"),
        ("JSON_SCHEMA", '{"$ref": "file:///etc/passwd"}', "/etc/passwd"),
        ("JSON_SCHEMA", '{"$schema": "http://127.0.0.1:9/own"}', "$schema must be one of"),
        ("XSD", "<order/>", "not a schema document"),
        ("XSD", '<!DOCTYPE s SYSTEM "file:///etc/passwd">' + XSD, "DOCTYPE"),
        (
            "XSD",
            XSD.replace("<xs:el", '<xs:include schemaLocation="file:///etc/passwd"/><xs:el'),
            "xs:include is not allowed",
        ),
        ("PROTO", 'syntax = "proto3"; import "/etc/passwd"; message M {}', "line 1, column 20"),
        ("PROTO", "message M { int32 x = ; }", "Expected field number"),
        ("PROTO", "message M { oneof x { " + "group G = 1 {" * 9000, ""),
        ("JSON_SCHEMA", " " * 300_000 + "{}", "larger than 262144 bytes"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(
    product: Product, code: str, kind: str, text: str, told: str
) -> None:
    body = {"version": "1.0", "schemaType": kind, "schema": text}
    refused = assert_problem(
        product.http.post(f"{TYPES}/{code}/schemas", json=body), 422, "invalid"
    )
    assert faulty_fields(refused) == {"schema"}
    assert told in refused["detail"]
    assert "root:" not in json.dumps(refused)
    assert product.http.get(f"{TYPES}/{code}").json()["specVersions"] == []


def test_a_schema_that_breaks_the_compiler_breaks_nothing_else(product: Product, code: str) -> None:
    evil = (
        'syntax = "proto2"; import "google/protobuf/descriptor.proto";'
        "message O { optional O o = 1; optional int32 x = 2; }"
        "extend google.protobuf.FileOptions { optional O o = 50000; }"
        "option (o)" + ".o" * 20_000 + ".x = 1;"
    )
    body = {"version": "1.0", "schemaType": "PROTO", "schema": evil}
    refused = product.http.post(f"{TYPES}/{code}/schemas", json=body)
    assert "breaks the compiler" in assert_problem(refused, 422, "invalid")["detail"]
    assert statuses(add(product, code, schema=PROTO, schemaType="PROTO")) == {"1.0": "FINALISING"}


def test_a_schema_of_ten_megabytes_is_not_read(product: Product, code: str) -> None:
    body = {"version": "1.0", "schema": "x" * 10_000_000}
    try:
        reply = product.http.post(f"{TYPES}/{code}/schemas", json=body)
    except httpx.TransportError:
        return  # the connection was ended before all of it was sent
    assert_problem(reply, 413, "too_large")


@pytest.mark.parametrize(
    "body",
    [
        {"version": "1.0"},
        {"version": "1.0", "schema": None},
        {"version": "1.0", "schema": 5},
        {"version": "1.0", "schema": {}, "schemaId": "sch_0000000000000"},
        {"version": "1.0", "schemaId": "sch_0000000000000", "schemaType": "XSD"},
        {"version": "1", "schema": {}},
        {"version": "1.0.0", "schema": {}},
        {"schema": {}},
        {"version": "1.0", "schema": {}, "schemaType": "AVRO"},
        {"version": "1.0", "schema": {}, "mimeType": "json"},
        {"version": "1.0", "schemaId": "sch_0000000000000"},
    ],
)
def test_a_version_that_breaks_a_rule_is_refused(
    product: Product, code: str, body: dict[str, Any]
) -> None:
    reply = product.http.post(f"{TYPES}/{code}/schemas", json=body)
    assert_problem(reply, 422, "invalid")


# Schemas by themselves


def keep(product: Product, **more: Any) -> dict[str, Any]:
    body = {"name": "order", "content": ORDER, **more}
    reply = product.http.post(SCHEMAS, json=body)
    assert reply.status_code == 201, reply.text
    document: dict[str, Any] = reply.json()
    return document


def test_a_schema_by_itself_is_kept_changed_and_removed(product: Product) -> None:
    made = keep(product, description="shared")
    path = f"{SCHEMAS}/{made['id']}"
    assert made["id"].startswith("sch_")
    assert json.loads(made["content"]) == ORDER
    assert (made["mimeType"], made["eventTypeId"]) == ("application/json", None)
    assert product.http.get(path).json() == made
    body = {"name": "xml", "content": XSD, "schemaType": "XSD"}
    changed = product.http.put(path, json=body).json()
    assert (changed["id"], changed["content"]) == (made["id"], XSD)
    assert (changed["mimeType"], changed["description"]) == ("application/xml", None)
    refused = product.http.put(path, json=body | {"content": "<order/>"})
    assert faulty_fields(assert_problem(refused, 422, "invalid")) == {"content"}
    assert product.http.delete(path).status_code == 204
    for method in ("GET", "DELETE"):
        assert_problem(product.http.request(method, path), 404, "not_found")
    assert_problem(product.http.put(path, json=body), 404, "not_found")


def test_a_version_is_made_of_a_schema_and_stays_when_that_changes(
    product: Product, code: str
) -> None:
    made = keep(product, content=PROTO, schemaType="PROTO", mimeType="application/protobuf")
    add(product, code, schemaId=made["id"])
    product.http.delete(f"{SCHEMAS}/{made['id']}")
    shown = product.http.get(f"{TYPES}/{code}/schemas/1.0").json()
    assert (shown["schema"], shown["mimeType"]) == (PROTO, "application/protobuf")


def test_a_schema_may_say_which_version_it_is_for(product: Product) -> None:
    made = create(product)
    add(product, made["code"])
    linked = keep(product, eventTypeId=made["code"], version="01.0")
    assert (linked["eventTypeId"], linked["version"]) == (made["id"], "1.0")
    listed = product.http.get(SCHEMAS, params={"eventTypeId": made["id"]}).json()["items"]
    assert [one["id"] for one in listed] == [linked["id"]]
    assert "content" not in listed[0]
    for wrong, field in (
        ({"eventTypeId": new_code()}, "eventTypeId"),
        ({"eventTypeId": made["id"], "version": "9.9"}, "version"),
    ):
        refused = product.http.post(SCHEMAS, json={"name": "x", "content": {}, **wrong})
        assert faulty_fields(assert_problem(refused, 422, "invalid")) == {field}
    alone = product.http.post(SCHEMAS, json={"name": "x", "content": {}, "version": "1.0"})
    assert_problem(alone, 422, "invalid")
    product.http.delete(f"{TYPES}/{made['code']}")
    assert product.http.get(f"{SCHEMAS}/{linked['id']}").json()["eventTypeId"] is None


def test_schemas_are_listed_page_by_page(product: Product) -> None:
    made = [keep(product, content=XSD, schemaType="XSD")["id"] for _ in range(3)]
    params: dict[str, Any] = {"schemaType": "XSD", "limit": 2}
    found: list[str] = []
    while True:
        page = product.http.get(SCHEMAS, params=params).json()
        found += [one["id"] for one in page["items"]]
        if page["nextCursor"] is None:
            break
        params["cursor"] = page["nextCursor"]
    assert set(made) <= set(found)
    assert len(found) == len(set(found))
    assert found == sorted(found)


# Others


def test_another_tenant_sees_and_touches_nothing(product: Product, stranger: Product) -> None:
    made = create(product)
    code = made["code"]
    add(product, code)
    kept = keep(product)
    version = {"version": "2.0", "schema": ORDER}
    missing = "event_type_not_found"
    for name in (code, made["id"]):
        path = f"{TYPES}/{name}"
        tries: list[tuple[str, str, Any]] = [
            ("GET", path, None),
            ("PATCH", path, {"name": "mine"}),
            ("DELETE", path, None),
            ("POST", f"{path}/archive", None),
            ("POST", f"{path}/schemas", version),
            ("GET", f"{path}/schemas/1.0", None),
            ("PUT", f"{path}/schemas/1.0", {"schema": {}}),
            ("POST", f"{path}/schemas/1.0/finalise", None),
            ("POST", f"{path}/schemas/1.0/deprecate", None),
        ]
        for method, where, body in tries:
            assert_problem(stranger.http.request(method, where, json=body), 404, missing)
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"name": "x", "content": {}})):
        reply = stranger.http.request(method, f"{SCHEMAS}/{kept['id']}", json=body)
        assert_problem(reply, 404, "not_found")
    borrowed = stranger.http.post(SCHEMAS, json={"name": "x", "content": {}, "eventTypeId": code})
    assert_problem(borrowed, 422, "invalid")
    subdomain = code.split(":")[1]
    for path in (TYPES, SCHEMAS, f"{TYPES}/filters/subdomains"):
        text = stranger.http.get(path, params={"limit": 500} if "filters" not in path else {}).text
        assert subdomain not in text
        assert kept["id"] not in text
    mine = create(stranger, code)  # the same code, another type
    add(stranger, code, schema=PROTO, schemaType="PROTO")
    assert mine["id"] != made["id"]
    assert statuses(product.http.get(f"{TYPES}/{code}").json()) == {"1.0": "FINALISING"}
    foreign = stranger.http.post(
        f"{TYPES}/{code}/schemas", json={"version": "3.0", "schemaId": kept["id"]}
    )
    assert_problem(foreign, 422, "invalid")


def test_a_key_that_reads_does_not_write(
    product: Product, code: str, clients: Callable[[str | None], httpx.Client]
) -> None:
    reader = clients(create_key(product, ["event_types:read"])["key"])
    assert reader.get(f"{TYPES}/{code}").status_code == 200
    assert_problem(reader.post(TYPES, json={"code": new_code(), "name": "x"}), 403, "forbidden")
    writer = clients(create_key(product, ["event_types:write"])["key"])
    assert_problem(writer.get(f"{TYPES}/{code}"), 403, "forbidden")
    assert writer.post(TYPES, json={"code": new_code(), "name": "x"}).status_code == 201
