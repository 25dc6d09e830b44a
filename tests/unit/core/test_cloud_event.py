import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.cloud_event import Birth, read_batch, read_binary, read_event, version_in
from core.errors import InvalidError
from core.event import AHEAD, BYTES, JSON, MOST_CONTEXT, MOST_EXTENSIONS, Event
from core.plain_json import MAX_DEPTH

NOW = 1_750_000_000.0
BIRTH = Birth(7, NOW, iter([f"{n:013}" for n in range(10_000)]).__next__)
LEAST: dict[str, Any] = {"type": "order.created", "source": "shop"}
CLOUD: dict[str, Any] = {**LEAST, "specversion": "1.0", "id": "e1"}
HEADERS = {"ce-specversion": "1.0", "ce-id": "e1", "ce-type": "order.created", "ce-source": "shop"}


def plain(**more: Any) -> Event:
    return read_event(msgspec.json.encode(LEAST | more), BIRTH)


def structured(**more: Any) -> Event:
    return read_event(msgspec.json.encode(CLOUD | more), BIRTH, structured=True)


def binary(body: bytes = b"", **more: str) -> Event:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return read_binary(HEADERS | named, body, BIRTH)


def refusal(raw: bytes, *, structured: bool = False) -> tuple[str, str]:
    with pytest.raises(InvalidError) as raised:
        read_event(raw, BIRTH, structured=structured)
    return raised.value.field, raised.value.expected


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
    assert read_event(raw, BIRTH).data == data


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
    assert read_event(msgspec.json.encode(CLOUD | {"data": "{}"}), BIRTH).data == b'"{}"'


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
        read_binary({k: v for k, v in HEADERS.items() if k != "ce-source"}, b"", BIRTH)


# Bounds


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"type": None}, "type"),
        ({"source": None}, "source"),
        ({"type": ""}, "type"),
        ({"type": "x" * 256}, "type"),
        ({"type": "shop:*"}, "type"),
        ({"type": " x"}, "type"),
        ({"type": 5}, "type"),
        ({"source": "x" * 256}, "source"),
        ({"source": "a\x00b"}, "source"),
        ({"subject": ""}, "subject"),
        ({"subject": "x" * 1025}, "subject"),
        ({"subject": {}}, "subject"),
        ({"specVersion": "2.0"}, "specVersion"),
        ({"specVersion": 1.0}, "specVersion"),
        ({"specversion": "1.0"}, "id"),
        ({"id": "x" * 256}, "id"),
        ({"time": "2025-06-15"}, "time"),
        ({"time": "2025-06-15T12:00:00"}, "time"),
        ({"time": 1_750_000_000}, "time"),
        ({"time": "1969-12-31T23:59:59Z"}, "time"),
        ({"time": "2025-06-16T15:06:41Z"}, "time"),
        ({"dataContentType": "json"}, "dataContentType"),
        ({"dataContentType": "text/plain\r\nX: y"}, "dataContentType"),
        ({"dataContentType": "text/plain; " + "x" * 250}, "dataContentType"),
        ({"dataContentType": 5}, "dataContentType"),
        ({"typeVersion": "1"}, "typeVersion"),
        ({"typeVersion": 1.0}, "typeVersion"),
        ({"executionId": "x" * 256}, "executionId"),
        ({"correlationId": " x"}, "correlationId"),
        ({"correlationId": 5}, "correlationId"),
        ({"deduplicationId": "x" * 513}, "deduplicationId"),
        ({"messageGroup": "x" * 256}, "messageGroup"),
        ({"contextData": {}}, "contextData"),
        ({"contextData": [{"key": "a", "value": "b"}] * (MOST_CONTEXT + 1)}, "contextData"),
        ({"contextData": ["a"]}, "contextData[0]"),
        ({"contextData": [{"key": "a", "value": "b"}, {"key": "a"}]}, "contextData[1]"),
        ({"contextData": [{"key": "a", "value": 1}]}, "contextData[0].value"),
        ({"contextData": [{"key": "a", "value": "x" * 501}]}, "contextData[0].value"),
        ({"contextData": [{"key": "x" * 101, "value": "b"}]}, "contextData[0].key"),
        ({"contextData": [{"key": "a=b", "value": "c"}]}, "contextData[0].key"),
        ({"mesageGroup": "typo"}, "mesageGroup"),
        ({"x" * 51: 1}, "x" * 51),
        ({"N" * 1000: 1}, "N" * 100),
        ({"own": 1.5}, "own"),
        ({"own": {}}, "own"),
        ({"own": 2**63}, "own"),
        ({"own": "x" * 1025}, "own"),
        ({f"own{n}": n for n in range(MOST_EXTENSIONS + 1)}, "extensions"),
        ({"messageGroup": "a", "messagegroup": "a"}, "messagegroup"),
        ({"data": {}, "data_base64": ""}, "data"),
        ({"dataBase64": "", "data_base64": ""}, "data"),
        ({"data_base64": "€"}, "data_base64"),
        ({"data_base64": "abc"}, "data_base64"),
        ({"data_base64": 5}, "data_base64"),
        ({"data_base64": "/w==", "datacontenttype": "text/json"}, "data_base64"),
        ({"data": {}, "datacontenttype": "text/plain"}, "data"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_breaks_a_rule_is_named(given: dict[str, Any], field: str) -> None:
    members = {name: value for name, value in (LEAST | given).items() if value is not None}
    found, expected = refusal(json.dumps(members).encode())
    assert found == field
    assert expected


def test_a_senders_clock_may_be_ahead_by_a_day() -> None:
    assert plain(time="2025-06-16T15:06:40Z").time == NOW + AHEAD


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"5", "body"),
        (b'{"type":', "body"),
        (b"\xff", "body"),
        (b'{"type":"t","source":"s","data":"\xff"}', "data"),
        (b'{"type":"t","source":"s","data":{"a":1e999}}', "data"),
        (b'{"type":"t","source":"s","subject":"\xff"}', "subject"),
        (b'{"type":"t","source":"s","data_base64":"\xff"}', "data_base64"),
        (b'{"type":"t","source":"s","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_json_is_refused(raw: bytes, field: str) -> None:
    assert refusal(raw)[0] == field


@pytest.mark.parametrize("as_text", [False, True])
def test_data_has_a_depth(as_text: bool) -> None:
    def nested(levels: int) -> Any:
        document = "[" * levels + "]" * levels
        return document if as_text else msgspec.Raw(document.encode())

    assert plain(data=nested(MAX_DEPTH)).data == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert plain(data=[[]] * 1000).data is not None
    with pytest.raises(InvalidError, match="data: JSON that is nested at most"):
        plain(data=nested(MAX_DEPTH + 1))


# Batches


def batch(*items: Any) -> bytes:
    return msgspec.json.encode(items)


def test_a_batch_may_have_both_forms() -> None:
    one, two = read_batch(batch(LEAST | {"data": "{}"}, CLOUD | {"data": "{}"}), BIRTH, 10)
    assert (one.data, one.deduplication_id) == (b"{}", None)
    assert (two.data, two.deduplication_id) == (b'"{}"', "shop/e1")
    assert one.event_id < two.event_id


def test_a_batch_of_cloud_events_has_nothing_else() -> None:
    with pytest.raises(InvalidError, match=r"\[1\].specversion: is required"):
        read_batch(batch(CLOUD, LEAST), BIRTH, 10, structured=True)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"[]", "body"),
        (batch(LEAST, LEAST, LEAST), "body"),
        (batch(LEAST, 5), "[1]"),
        (batch(LEAST, LEAST | {"subject": 5}), "[1].subject"),
        (batch({"type": "x"}), "[0].source"),
        (b"{}", "body"),
        (b"[{}", "body"),
    ],
)
def test_a_batch_is_refused_with_the_index(raw: bytes, field: str) -> None:
    with pytest.raises(InvalidError) as raised:
        read_batch(raw, BIRTH, 2)
    assert raised.value.field == field


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from([*CLOUD, "data", "time", "contextData", "x"]), json_values))
def test_whatever_comes_becomes_an_event_or_a_refusal(members: dict[str, Any]) -> None:
    try:
        found = read_event(msgspec.json.encode(members), BIRTH)
    except InvalidError:
        return
    if members.get("data") is not None:
        assert found.data is not None
        msgspec.json.decode(found.data)


@given(st.binary())
def test_bytes_become_an_event_or_a_refusal(raw: bytes) -> None:
    assert binary(raw).data == (raw or None)
    for read in (lambda: read_event(raw, BIRTH), lambda: read_batch(raw, BIRTH, 5)):
        with pytest.raises(InvalidError):
            read()
