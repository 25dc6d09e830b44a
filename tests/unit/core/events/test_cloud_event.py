"""An event may come as plain JSON or as a CloudEvent, structured or binary: each is understood."""

import base64
import json
from typing import Any

import msgspec
import pytest

from core.events.cloud_event import read_binary, read_event, version_in
from core.shared.errors import InvalidError
from core.shared.media_types import BYTES, JSON
from tests.unit.core.events.examples import (
    CLOUD,
    HEADERS,
    NOW,
    STAMP,
    binary,
    plain,
    refusal,
    structured,
)

# Plain JSON


def test_the_seeds_own_example() -> None:
    found = plain(subject="order:12345", data={"amount": 99.99, "items": 3})
    assert (found.tenant, found.time, found.spec_version) == (7, NOW, "1.0")
    assert (found.type, found.source, found.subject) == ("order.created", "shop", "order:12345")
    assert (found.data, found.content_type) == (b'{"amount":99.99,"items":3}', JSON)
    assert found.deduplication_id is None
    assert (found.context, found.extensions) == ((), {})


def test_each_event_gets_an_id_of_its_own() -> None:
    assert plain().event_id != plain().event_id


def test_all_attributes_in_plain_words() -> None:
    found = plain(
        specVersion="1.0",
        time="2025-06-15T12:00:00.25+02:00",
        dataContentType="application/vnd.x+json",
        dataSchema="urn:x",
        typeVersion="01.2",
        executionId="run",
        correlationId="order",
        causationId="cause",
        deduplicationId="once",
        messageGroup="group",
        contextData=[{"key": "region", "value": "us=west"}, {"key": "a", "value": "1"}],
        traceparent="00-1",
        sampled=True,
        weight=-5,
        id="e1",
        data={},
    )
    assert found.time == 1_749_981_600.25
    assert (found.content_type, found.data_schema) == ("application/vnd.x+json", "urn:x")
    assert found.type_version == "1.2"
    assert (found.execution_id, found.correlation_id) == ("run", "order")
    assert (found.causation_id, found.message_group) == ("cause", "group")
    assert found.deduplication_id == "once"
    assert found.context == (("region", "us=west"), ("a", "1"))
    assert found.extensions == {"traceparent": "00-1", "sampled": True, "weight": -5}


def test_the_same_in_the_words_of_cloud_events() -> None:
    camel = plain(messageGroup="g", correlationId="c", executionId="e", dataSchema="urn:x")
    lower = plain(messagegroup="g", correlationid="c", executionid="e", dataschema="urn:x")
    assert msgspec.structs.replace(lower, event_id=camel.event_id) == camel


def test_null_is_as_good_as_nothing() -> None:
    found = plain(subject=None, data=None, id=None, own=None)
    assert (found.subject, found.data, found.content_type) == (None, None, None)
    assert (found.deduplication_id, found.extensions) == (None, {})


def test_data_is_kept_to_the_byte() -> None:
    raw = b'{"type":"t","source":"s","data": {"b" : 1.10,\n "a": 12345678901234567890123 } }'
    data = b'{"b" : 1.10,\n "a": 12345678901234567890123 }'
    assert read_event(raw, STAMP).data == data


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ('{"amount": 99.99}', b'{"amount": 99.99}'),
        (" [1, 2]", b" [1, 2]"),
        ("{amount}", b'"{amount}"'),
        ("hello", b'"hello"'),
        ("123", b'"123"'),
        ("", b'""'),
        (5, b"5"),
        ([], b"[]"),
        (False, b"false"),
    ],
)
def test_a_document_may_come_as_a_text(data: Any, kept: bytes) -> None:
    found = plain(data=data)
    assert (found.data, found.content_type) == (kept, JSON)


def test_a_text_that_is_declared_as_something_else_is_the_data() -> None:
    found = plain(data="<ö/>", dataContentType="text/xml; charset=utf-8")
    assert (found.data, found.content_type) == ("<ö/>".encode(), "text/xml; charset=utf-8")


@pytest.mark.parametrize(
    ("given", "type_", "kept"),
    [
        ({}, JSON, b'{"a":1}'),
        ({}, BYTES, b"\x00\xff"),
        ({"datacontenttype": "image/png"}, "image/png", b"\x00\xff"),
        ({"datacontenttype": "text/json"}, "text/json", b'{"a":1}'),
    ],
)
@pytest.mark.parametrize("name", ["data_base64", "dataBase64"])
def test_bytes_come_in_base64(name: str, given: dict[str, Any], type_: str, kept: bytes) -> None:
    found = plain(**given, **{name: base64.b64encode(kept).decode()})
    assert (found.data, found.content_type) == (kept, type_)


# Structured mode


def test_a_cloud_event_is_known_by_source_and_id() -> None:
    assert structured().deduplication_id == "shop/e1"
    assert structured(deduplicationid="own").deduplication_id == "own"


def test_a_text_is_a_text_in_structured_mode() -> None:
    assert structured(data='{"a": 1}').data == b'"{\\"a\\": 1}"'
    assert read_event(msgspec.json.encode(CLOUD | {"data": "{}"}), STAMP).data == b'"{}"'


@pytest.mark.parametrize("missing", ["id", "specversion", "source", "type"])
def test_a_cloud_event_has_four_attributes_at_least(missing: str) -> None:
    members = {name: value for name, value in CLOUD.items() if name != missing}
    assert refusal(json.dumps(members).encode(), structured=True) == (missing, "is required")


@pytest.mark.parametrize(
    ("schema", "version"),
    [
        ("https://x.example/order/1.0", "1.0"),
        ("https://x.example/order/v2.11/", "2.11"),
        ("https://x.example/order-v01.2.json", "1.2"),
        ("urn:shop:order:created:1.0", "1.0"),
        ("https://x.example/order#1.0", "1.0"),
        ("https://x.example/order?version=3.4", "3.4"),
        ("https://x.example/order/1.2.3", None),
        ("https://x.example/order", None),
        ("https://1.0/order", None),
        ("order1.0", None),
    ],
)
def test_the_address_of_a_schema_may_end_in_a_version(schema: str, version: str | None) -> None:
    assert version_in(schema) == version
    assert structured(dataschema=schema).type_version == version
    assert structured(dataschema=schema, typeversion="9.9").type_version == "9.9"


# Binary mode


def test_attributes_stand_in_headers_and_data_in_the_body() -> None:
    found = binary(
        b"<order/>",
        content_type="application/xml",
        authorization="Bearer secret",
        ce_subject="order:1",
        ce_time="2025-06-15T12:00:00Z",
        ce_correlationid="c",
        ce_executionid="e",
        ce_messagegroup="g",
        ce_contextdata='[{"key": "region", "value": "us"}]',
        ce_own="x",
    )
    assert (found.data, found.content_type) == (b"<order/>", "application/xml")
    assert (found.subject, found.message_group) == ("order:1", "g")
    assert (found.correlation_id, found.execution_id) == ("c", "e")
    assert found.context == (("region", "us"),)
    assert (found.deduplication_id, found.extensions) == ("shop/e1", {"own": "x"})


@pytest.mark.parametrize(
    ("body", "headers", "kept", "type_"),
    [
        (b"", {}, None, None),
        (b"", {"content_type": "text/plain"}, None, "text/plain"),
        (b'{"a": 1}', {}, b'{"a": 1}', JSON),
        (b"\xff", {}, b"\xff", BYTES),
        (b"[1]", {"content_type": "application/json"}, b"[1]", "application/json"),
    ],
)
def test_data_says_what_it_is_or_is_looked_at(
    body: bytes, headers: dict[str, str], kept: bytes | None, type_: str | None
) -> None:
    found = binary(body, **headers)
    assert (found.data, found.content_type) == (kept, type_)


@pytest.mark.parametrize(
    ("value", "subject"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ('"quoted \\"so\\""', 'quoted "so"'),
        ("100%", "100%"),
        ('"', '"'),
    ],
)
def test_headers_are_decoded(value: str, subject: str) -> None:
    assert binary(ce_subject=value).subject == subject


@pytest.mark.parametrize(
    ("headers", "body", "field"),
    [
        ({"ce_id": "%ff"}, b"", "ce-id"),
        ({"ce_specversion": "0.3"}, b"", "ce-specversion"),
        ({"ce_time": "yesterday"}, b"", "ce-time"),
        ({"ce_contextdata": "{"}, b"", "ce-contextdata"),
        ({"ce_a_b": "x"}, b"", "ce-a-b"),
        ({"ce_data": "x"}, b"", "ce-data"),
        ({"ce_own": "x" * 1025}, b"", "ce-own"),
        ({"ce_datacontenttype": "text/plain"}, b"", "ce-datacontenttype"),
        ({"content_type": "text"}, b"x", "content-type"),
        ({"content_type": "application/json"}, b"{", "body"),
    ],
)
def test_a_header_that_breaks_a_rule_is_named(
    headers: dict[str, str], body: bytes, field: str
) -> None:
    with pytest.raises(InvalidError) as raised:
        binary(body, **headers)
    assert raised.value.field == field


def test_a_missing_header_is_named() -> None:
    with pytest.raises(InvalidError, match="ce-source: is required"):
        read_binary({k: v for k, v in HEADERS.items() if k != "ce-source"}, b"", STAMP)
