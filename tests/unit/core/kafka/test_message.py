import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.kafka.message import KafkaMessage, UndecodableMessage, read_message
from core.shared.media_types import BYTES, CLOUD_EVENT, JSON
from core.waits.incoming_event import CorrelationIds, IncomingEvent, deduplication_id_of, find_ids
from core.waits.spec import Source


def record(value: bytes | None = b"{}", **headers: str | bytes) -> KafkaMessage:
    return KafkaMessage(
        topic="orders",
        partition=3,
        offset=17,
        value=value,
        headers=tuple(
            (name.replace("_", "-") if not name.startswith("ce_") else name, _bytes(text))
            for name, text in headers.items()
        ),
    )


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def read(given: KafkaMessage) -> IncomingEvent:
    found = read_message(given)
    assert isinstance(found, IncomingEvent), found
    return found


def ids(arrival: IncomingEvent) -> tuple[str, str]:
    found = find_ids(arrival.headers, arrival.body)
    assert isinstance(found, list), found
    assert isinstance(found[0], CorrelationIds)
    return found[0].execution_id, found[0].correlation_id


def test_a_plain_record_is_json_of_its_topic() -> None:
    arrival = read(record(b'{"correlation_id":"c","execution_id":"e","n":1}'))
    assert (arrival.source, arrival.label, arrival.content_type) == (Source.KAFKA, "orders", JSON)
    assert deduplication_id_of(arrival, "turn") == "kafka/orders/3/17"
    assert ids(arrival) == ("e", "c")


def test_ids_may_be_in_headers() -> None:
    arrival = read(record(b"{}", X_Correlation_Id="c", X_Execution_Id="e"))
    assert ids(arrival) == ("e", "c")


def test_a_cloudevent_in_binary_mode_has_its_ids_in_attributes() -> None:
    arrival = read(
        record(b'{"n":1}', ce_id="1", ce_type="t", ce_correlationid="c", ce_executionid="e")
    )
    assert ids(arrival) == ("e", "c")
    assert arrival.body == {"n": 1}


def test_a_header_goes_before_an_attribute() -> None:
    arrival = read(record(b"{}", X_Correlation_Id="mine", ce_correlationid="c", ce_executionid="e"))
    assert ids(arrival) == ("e", "mine")


def test_a_cloudevent_in_structured_mode_is_its_data() -> None:
    envelope = (
        b'{"specversion":"1.0","id":"1","type":"t","correlationid":"c","executionid":"e",'
        b'"priority":7,"data":{"n":  1}}'
    )
    arrival = read(record(envelope, content_type=CLOUD_EVENT + "; charset=utf-8"))
    assert ids(arrival) == ("e", "c")
    assert (arrival.raw, arrival.body) == (b'{"n":  1}', {"n": 1})
    assert arrival.headers["ce_priority"] == "7"


def test_a_structured_cloudevent_may_carry_bytes_or_nothing() -> None:
    coded = base64.b64encode(b"\x00\x01").decode()
    envelope = {"id": "1", "datacontenttype": "application/avro", "data_base64": coded}
    arrival = read(record(msgspec.json.encode(envelope), content_type=CLOUD_EVENT))
    assert (arrival.raw, arrival.body, arrival.content_type) == (
        b"\x00\x01",
        None,
        "application/avro",
    )
    assert read(record(b'{"id":"1"}', content_type=CLOUD_EVENT)).body is None


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{", b'{"data_base64":"%"}', b'{"data_base64":5}', b'{"data":{]}']
)
def test_a_broken_envelope_is_undecodable(value: bytes) -> None:
    found = read_message(record(value, content_type=CLOUD_EVENT))
    assert isinstance(found, UndecodableMessage)
    assert "CloudEvent" in found.error


def test_bytes_are_kept_and_flagged() -> None:
    arrival = read(record(b"\x00\x01", X_Correlation_Id="c", X_Execution_Id="e"))
    assert (arrival.raw, arrival.body, arrival.content_type) == (b"\x00\x01", None, BYTES)
    assert ids(arrival) == ("e", "c")


def test_a_record_says_what_it_is() -> None:
    arrival = read(record(b'{"n":1}', content_type="text/plain; charset=utf-8"))
    assert (arrival.body, arrival.content_type) == (None, "text/plain")
    assert read(record(b'{"n":1}', content_type="application/vnd.x+json")).body == {"n": 1}


@pytest.mark.parametrize(
    "none", ["text/pl\x00ain", "json", "", "a/b\nc/d", f"a/{'b' * 200}", "text/ä", "\x00"]
)
def test_a_content_type_that_can_be_none_says_nothing(none: str) -> None:
    plain = read(record(b'{"n":1}', content_type=none))
    assert (plain.body, plain.content_type) == ({"n": 1}, JSON)
    assert read(record(b"\x01", content_type=none)).content_type == BYTES
    envelope = msgspec.json.encode({"id": "1", "datacontenttype": none, "data": {"n": 1}})
    structured = read(record(envelope, content_type=CLOUD_EVENT))
    assert (structured.body, structured.content_type) == ({"n": 1}, JSON)


_ANY_TEXT = st.text(max_size=12) | st.sampled_from(["text/\x00", "a\x00b", "\x00"])
_NAMES = st.sampled_from(
    ["content-type", "x-correlation-id", "x-execution-id", "ce_datacontenttype", "ce_correlationid"]
)
_DOCUMENTS = st.dictionaries(
    st.sampled_from(["correlation_id", "execution_id", "datacontenttype", "id", "data"]), _ANY_TEXT
)


@given(
    headers=st.lists(st.tuples(_NAMES, _ANY_TEXT.map(str.encode) | st.binary(max_size=12))),
    document=_DOCUMENTS,
    structured=st.booleans(),
)
def test_whatever_a_record_says_no_text_of_it_has_a_nul(
    headers: list[tuple[str, bytes]], document: dict[str, str], structured: bool
) -> None:
    """All that becomes a text in Postgres: label, event id, content type and both ids."""
    if structured:
        headers = [("content-type", CLOUD_EVENT.encode()), *headers]
    value = msgspec.json.encode(document)
    given_ = KafkaMessage(topic="t", partition=0, offset=1, value=value, headers=tuple(headers))
    arrival = read_message(given_)
    if isinstance(arrival, UndecodableMessage):
        return
    texts = [arrival.label, deduplication_id_of(arrival, "turn"), arrival.content_type]
    found = find_ids(arrival.headers, arrival.body)
    if isinstance(found, list):
        texts += [text for pair in found for text in (pair.execution_id, pair.correlation_id)]
    assert not any("\x00" in text for text in texts)
    assert all(text.encode() for text in texts)


@pytest.mark.parametrize("value", [b"{", b"\xff", b"[" * 100_000])
def test_what_claims_to_be_json_must_be_json(value: bytes) -> None:
    assert isinstance(read_message(record(value, content_type=JSON)), UndecodableMessage)


def test_a_tombstone_is_null() -> None:
    arrival = read(record(None))
    assert (arrival.raw, arrival.body) == (b"null", None)


def test_a_header_of_bytes_is_no_id() -> None:
    assert read(record(b"{}", X_Correlation_Id=b"\xff")).headers == {}


def test_a_header_without_a_value_is_as_if_it_were_not_there() -> None:
    nulls = (("X-Correlation-Id", None), ("content-type", None))
    given = KafkaMessage(topic="t", partition=0, offset=0, value=b"{}", headers=nulls)
    assert read(given).headers == {}


VALUES = st.none() | st.binary(max_size=9)


@given(st.binary(), st.lists(st.tuples(st.text(max_size=9), VALUES), max_size=4))
def test_no_bytes_raise(value: bytes, headers: list[tuple[str, bytes | None]]) -> None:
    given = KafkaMessage(topic="t", partition=0, offset=0, value=value, headers=tuple(headers))
    assert isinstance(read_message(given), IncomingEvent | UndecodableMessage)
