"""An event that breaks a rule is refused with the name of what is wrong, alone or in a batch."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.events.cloud_event import read_batch, read_event
from core.events.event import MAX_CLOCK_SKEW, MAX_CONTEXT_PAIRS, MAX_EXTENSIONS
from core.shared.errors import InvalidError
from core.shared.json_limits import MAX_DEPTH
from tests.unit.core.events.examples import CLOUD, LEAST, NOW, STAMP, binary, plain, refusal

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
        ({"type": "muster:records:orders:created"}, "type"),
        ({"type": "muster:records:"}, "type"),
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
        ({"contextData": [{"key": "a", "value": "b"}] * (MAX_CONTEXT_PAIRS + 1)}, "contextData"),
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
        ({f"own{n}": n for n in range(MAX_EXTENSIONS + 1)}, "extensions"),
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
    assert plain(time="2025-06-16T15:06:40Z").time == NOW + MAX_CLOCK_SKEW


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
    one, two = read_batch(batch(LEAST | {"data": "{}"}, CLOUD | {"data": "{}"}), STAMP, 10)
    assert (one.data, one.deduplication_id) == (b"{}", None)
    assert (two.data, two.deduplication_id) == (b'"{}"', "shop/e1")
    assert one.event_id < two.event_id


def test_a_batch_of_cloud_events_has_nothing_else() -> None:
    with pytest.raises(InvalidError, match=r"\[1\].specversion: is required"):
        read_batch(batch(CLOUD, LEAST), STAMP, 10, structured=True)


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
        read_batch(raw, STAMP, 2)
    assert raised.value.field == field


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from([*CLOUD, "data", "time", "contextData", "x"]), json_values))
def test_whatever_comes_becomes_an_event_or_a_refusal(members: dict[str, Any]) -> None:
    try:
        found = read_event(msgspec.json.encode(members), STAMP)
    except InvalidError:
        return
    if members.get("data") is not None:
        assert found.data is not None
        msgspec.json.decode(found.data)


@given(st.binary())
def test_bytes_become_an_event_or_a_refusal(raw: bytes) -> None:
    assert binary(raw).data == (raw or None)
    for read in (lambda: read_event(raw, STAMP), lambda: read_batch(raw, STAMP, 5)):
        with pytest.raises(InvalidError):
            read()
