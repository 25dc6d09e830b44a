"""Events are held against the schemas of their types, in every language, over HTTP."""

from typing import Any

import httpx
import pytest

from tests.support.event_types import ORDER, TYPES
from tests.support.events import BATCH, EVENTS, created, post
from tests.support.problem import assert_problem, faulty_fields
from tests.support.product import Product, new_id, until

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
PAIR = {"$schema": DRAFT_2020, "prefixItems": [{"type": "string"}, {"type": "number"}]}
XSD = (
    '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
    '<xs:element name="order" type="xs:int"/></xs:schema>'
)
PROTO = 'syntax = "proto3"; message Order { string id = 1; int32 total = 2; }'
JSON, XML, BINARY = "application/json", "application/xml", "application/protobuf"


def new_type(product: Product, *versions: dict[str, Any], **more: Any) -> str:
    """A type whose versions are these."""
    application = f"a{new_id()[:12]}"
    code = f"{application}:orders:order:created"
    declared = {"code": code, "name": "x", "versions": list(versions), **more}
    path = f"/api/applications/{application}/event-types/sync"
    reply = product.http.post(path, json={"eventTypes": [declared]})
    assert reply.status_code == 200, reply.text
    return code


def current(version: str, schema: Any, kind: str = "JSON_SCHEMA") -> dict[str, Any]:
    return {"version": version, "schema": schema, "schemaType": kind, "status": "CURRENT"}


def send(product: Product, code: str, payload: bytes, content_type: str = JSON) -> httpx.Response:
    """As a CloudEvent in binary mode: the body is the data, to the byte."""
    attributes = {"specversion": "1.0", "id": new_id(), "source": "test", "type": code}
    headers = {f"ce-{name}": value for name, value in attributes.items()}
    return product.http.post(
        "/api/events", content=payload, headers=headers | {"Content-Type": content_type}
    )


@pytest.mark.parametrize(
    ("kind", "schema", "content_type", "fits", "fits_not", "field"),
    [
        (
            "JSON_SCHEMA",
            {"properties": {"total": {"type": "number"}}},
            JSON,
            b'{"total":1}',
            b'{"total":"1"}',
            "data.total",
        ),
        ("JSON_SCHEMA", PAIR, JSON, b'["a",1]', b'["a","b"]', "data[1]"),
        ("XSD", XSD, XML, b"<order>5</order>", b"<order>x</order>", "data/order"),
        (
            "XSD",
            XSD,
            XML,
            b"<order>5</order>",
            b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><order>&b;</order>',
            "data",
        ),
        ("PROTO", PROTO, JSON, b'{"id":"a","total":1}', b'{"total":"many"}', "data.total"),
        ("PROTO", PROTO, BINARY, b"\x0a\x01a\x10\x05", b"\x0a\xff", "data"),
    ],
    ids=["draft-07", "2020-12", "xsd", "xml entity", "proto json", "proto binary"],
)
def test_what_does_not_fit_is_refused_with_its_place(
    product: Product,
    kind: str,
    schema: Any,
    content_type: str,
    fits: bytes,
    fits_not: bytes,
    field: str,
) -> None:
    code = new_type(product, current("1.0", schema, kind))
    taken = send(product, code, fits, content_type)
    assert taken.status_code == 201, taken.text
    assert taken.json()["event"]["typeVersion"] == "1.0"
    refused = assert_problem(send(product, code, fits_not, content_type), 422, "schema_mismatch")
    assert faulty_fields(refused) == {field}
    assert "root:" not in refused["detail"]


def test_the_mode_of_a_type_decides_at_once(product: Product) -> None:
    code = new_type(product, current("1.0", False))
    assert_problem(send(product, code, b"{}"), 422, "schema_mismatch")
    for mode, warnings in (("warn", 1), ("off", 0)):
        product.http.patch(f"/api/event-types/{code}", json={"validation": mode})
        taken = send(product, code, b"{}")
        assert taken.status_code == 201, taken.text
        assert len(taken.json().get("warnings", [])) == warnings
        assert taken.json()["event"]["typeVersion"] == "1.0"
    product.http.patch(f"/api/event-types/{code}", json={"validation": "enforce"})
    assert_problem(send(product, code, b"{}"), 422, "schema_mismatch")


def test_an_event_is_of_the_version_it_fits_or_names(product: Product) -> None:
    old, new = {"type": "object"}, {"type": "array"}
    code = new_type(product, current("1.0", old), current("2.0", new))

    def posted(data: Any, **more: str) -> httpx.Response:
        body = {"type": code, "source": "test", "data": data, **more}
        return product.http.post("/api/events", json=body)

    assert posted([]).json()["event"]["typeVersion"] == "2.0"
    assert posted({}).json()["event"]["typeVersion"] == "1.0"
    assert_problem(posted({}, typeVersion="2.0"), 422, "schema_mismatch")
    unknown = assert_problem(posted({}, typeVersion="3.0"), 422, "schema_mismatch")
    assert faulty_fields(unknown) == {"typeVersion"}
    product.http.post(f"/api/event-types/{code}/schemas/1.0/deprecate")
    assert_problem(posted({}), 422, "schema_mismatch")
    assert posted({}, typeVersion="1.0").json()["event"]["typeVersion"] == "1.0"


def test_one_event_that_does_not_fit_refuses_its_batch(product: Product) -> None:
    code = new_type(product, current("1.0", {"required": ["id"]}))
    batch = [{"type": code, "source": "test", "data": data} for data in ({"id": 1}, {})]
    refused = assert_problem(
        product.http.post("/api/events/batch", json=batch), 422, "schema_mismatch"
    )
    assert faulty_fields(refused) == {"[1].data"}
    assert product.http.get("/api/events", params={"type": code}).json()["items"] == []


def test_a_payload_that_would_take_years_is_refused_and_others_go_on(product: Product) -> None:
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(60)}
    slow = {"$ref": "#/definitions/d0", "definitions": twice | {"d60": {"type": "integer"}}}
    code = new_type(product, current("1.0", slow))
    refused = assert_problem(send(product, code, b"1"), 422, "schema_mismatch")
    assert "within 1 s" in refused["detail"]
    assert send(product, new_type(product, current("1.0", {})), b"1").status_code == 201


def test_events_of_a_client_scoped_type_name_their_client(product: Product) -> None:
    code = new_type(product, clientScoped=True, validation="off")
    event = {"type": code, "source": "test", "data": {}}
    problem = assert_problem(product.http.post("/api/events", json=event), 422, "client_required")
    assert faulty_fields(problem) == {"contextData"}
    context = [{"key": "clientId", "value": "acme"}]
    batch = [event | {"contextData": context}, event]
    reply = product.http.post("/api/events/batch", json=batch)
    assert faulty_fields(assert_problem(reply, 422, "client_required")) == {"[1].contextData"}
    taken = product.http.post("/api/events", json=batch[0])
    assert taken.status_code == 201, taken.text


# Versions in force, and in the making


@pytest.fixture
def typed(product: Product) -> str:
    """A type with a version in force that wants an id, and the next one in the making."""
    code = f"shop:s{new_id()[:12]}:order:created"
    product.http.post(TYPES, json={"code": code, "name": "Order created"})
    for version, schema in (("1.0", ORDER), ("2.0", {"type": "array"})):
        body = {"version": version, "schema": schema}
        assert product.http.post(f"{TYPES}/{code}/schemas", json=body).status_code == 201
    finalised = product.http.post(f"{TYPES}/{code}/schemas/1.0/finalise")
    assert finalised.status_code == 200
    return code


def test_data_that_its_type_does_not_allow_is_refused_with_its_path(
    product: Product, typed: str
) -> None:
    event = created(post(product, type=typed, data={"id": "1"}))["event"]
    assert event["typeVersion"] == "1.0"
    for wrong in ({"id": 1}, {}, None, [], "text"):
        problem = assert_problem(post(product, type=typed, data=wrong), 422, "schema_mismatch")
        (field,) = faulty_fields(problem)
        assert field.startswith("data")
        assert f"{typed} 1.0" in problem["detail"]
    batch = [{"type": typed, "source": "s", "data": data} for data in ({"id": "1"}, {"id": 1})]
    problem = assert_problem(product.http.post(BATCH, json=batch), 422, "schema_mismatch")
    assert all(field.startswith("[1].data") for field in faulty_fields(problem))
    found = product.http.get(EVENTS, params={"type": typed}).json()["items"]
    assert [item["id"] for item in found] == [event["id"]]


def test_what_does_not_fit_a_draft_is_stored_with_a_warning(product: Product, typed: str) -> None:
    document = created(post(product, type=typed, typeVersion="2.0", data={"id": "1"}))
    assert document["warnings"][0]["expected"]
    assert document["event"]["typeVersion"] == "2.0"
    schema = "https://schemas.example/order/2.0"
    assert "warnings" not in created(post(product, type=typed, dataSchema=schema, data=[]))
    batch = [
        {"type": typed, "source": "s", "data": {"id": "1"}},
        {"type": typed, "source": "s", "typeVersion": "2.0", "data": 5},
    ]
    warned = created(product.http.post(BATCH, json=batch))["warnings"]
    assert [one["index"] for one in warned] == [1]


def test_a_change_of_the_type_holds_at_once(product: Product, typed: str) -> None:
    assert_problem(post(product, type=typed, data={}), 422, "schema_mismatch")
    product.http.patch(f"{TYPES}/{typed}", json={"validation": "warn"})
    until("the change", lambda: post(product, type=typed, data={}).status_code == 201, within=5)
    assert created(post(product, type=typed, data={}))["warnings"]
