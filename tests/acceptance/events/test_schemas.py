"""Schemas of every kind over HTTP: those of versions, and those by themselves."""

import json
from typing import Any

import httpx
import pytest

from tests.support.event_types import (
    ORDER,
    PROTO,
    SCHEMAS,
    TYPES,
    XSD,
    add,
    create,
    keep,
    new_code,
    statuses,
)
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product

KINDS = {
    "JSON_SCHEMA": (json.dumps(ORDER), "application/json", "application/schema+json"),
    "XSD": (XSD, "application/xml", "application/xml"),
    "PROTO": (PROTO, "application/x-protobuf", "text/plain; charset=utf-8"),
}

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
