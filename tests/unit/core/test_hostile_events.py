"""Whatever comes as an event or a Kafka record is read or refused in words, and nothing else."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.messaging.shard_messages import decode_messages, encode_batch
from core.events.cloud_event import EventStamp, read_batch, read_binary, read_event
from core.events.cloud_event_data import EventData, from_base64, from_body, from_json
from core.events.event import EXTENSION_LENGTH, MAX_EXTENSIONS, Event
from core.kafka.message import KafkaMessage, UndecodableMessage, read_message
from core.shared.address import Address
from core.shared.errors import InvalidError
from core.shared.media_types import CLOUD_EVENT
from core.waits.incoming_event import IncomingEvent, find_ids, offer_of, unaddressed_event
from tests.support.hostile_input import (
    RAW,
    TEXTS,
    VALUES,
    as_json,
    damaged,
    is_storable,
    nearly,
)

NOW = 1_750_000_000.0
BIRTH = EventStamp(tenant=1, now=NOW, new_id=lambda: "evt_1")
EXAMPLE: dict[str, Any] = {
    "specversion": "1.0",
    "id": "1",
    "type": "order.created",
    "source": "/shop",
    "subject": "order:1",
    "time": "2025-01-31T12:00:00Z",
    "datacontenttype": "application/json",
    "dataschema": "urn:shop:order:1.0",
    "executionid": "e",
    "correlationid": "c",
    "contextdata": [{"key": "region", "value": "west"}],
    "data": {"n": 1, "execution_id": "e"},
    "mine": "extension",
}
# Large inputs are the point here.
MANY = settings(max_examples=150, suppress_health_check=list(HealthCheck), print_blob=False)


def assert_sound(event: Event) -> None:
    """All that is said of it can be stored, and has a bound."""
    texts = [
        getattr(event, name)
        for name in event.__struct_fields__
        if isinstance(getattr(event, name), str)
    ]
    texts += [text for pair in event.context for text in pair]
    texts += [text for text in event.extensions.values() if isinstance(text, str)]
    texts += list(event.extensions)
    assert all(is_storable(text) and len(text) <= EXTENSION_LENGTH for text in texts)
    assert len(event.extensions) <= MAX_EXTENSIONS
    assert 0 <= event.time <= NOW + 86_400
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
    if event.data is not None and event.is_json:
        msgspec.json.decode(event.data)


def _read(read: Callable[[], Event]) -> None:
    """Either it is refused in words of some length, or it is sound."""
    try:
        event = read()
    except InvalidError as error:
        refusal = str(error)
    else:
        assert_sound(event)
        return
    assert 0 < len(refusal) < 2_000


@MANY
@given(nearly(EXAMPLE).map(as_json) | VALUES.map(as_json) | RAW, st.booleans())
def test_any_posted_event(raw: bytes, structured: bool) -> None:
    _read(lambda: read_event(raw, BIRTH, structured=structured))


@MANY
@given(damaged(as_json(EXAMPLE)))
def test_an_event_that_was_damaged_on_its_way(raw: bytes) -> None:
    _read(lambda: read_event(raw, BIRTH))


@MANY
@given(
    st.dictionaries(
        TEXTS | st.sampled_from([f"ce-{name}" for name in EXAMPLE] + ["content-type"]),
        TEXTS | st.sampled_from(["1.0", "application/json", "text/plain; charset=utf-8"]),
        max_size=12,
    ),
    RAW | VALUES.map(as_json),
)
def test_any_event_in_binary_mode(headers: dict[str, str], body: bytes) -> None:
    sure = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "s"}
    for given_headers in (headers, sure | headers):
        _read(partial(read_binary, given_headers, body, BIRTH))


@MANY
@given(st.lists(nearly(EXAMPLE), max_size=4).map(as_json) | RAW)
def test_any_batch(raw: bytes) -> None:
    try:
        events = read_batch(raw, BIRTH, most=3)
    except InvalidError:
        return
    assert 1 <= len(events) <= 3
    for event in events:
        assert_sound(event)


MEDIA_TYPES = TEXTS | st.sampled_from(
    [
        "application/json",
        "application/problem+json",
        "text/plain",
        CLOUD_EVENT,
        "text/pl\x00ain",
        "x" * 2_000,
    ]
)


@MANY
@given(
    RAW | VALUES.map(as_json) | nearly(EXAMPLE).map(as_json) | st.none(),
    MEDIA_TYPES,
    st.lists(
        st.tuples(
            TEXTS | st.sampled_from(["content-type", "ce_correlationid", "X-Execution-Id"]),
            st.none() | RAW | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
        ),
        max_size=4,
    ),
    RAW | st.none(),
)
def test_any_kafka_record(
    value: bytes | None,
    media_type: str,
    headers: list[tuple[str, bytes | None]],
    key: bytes | None,
) -> None:
    declared = ("Content-Type", media_type.encode("utf-8", "surrogatepass"))
    for some in (headers, [declared, *headers]):
        record = KafkaMessage(
            topic="orders", partition=0, offset=7, value=value, key=key, headers=tuple(some)
        )
        found = read_message(record)
        if isinstance(found, UndecodableMessage):
            assert len(found.error) < 2_000
        else:
            _assert_sound_arrival(found)


def _assert_sound_arrival(arrival: IncomingEvent) -> None:
    assert is_storable(arrival.content_type)
    assert len(arrival.content_type) <= 255, "a media type that fills a row"
    ids = find_ids(arrival.headers, arrival.body)
    if not isinstance(ids, list):
        assert all(is_storable(str(one)) for one in ids.ids)
        assert unaddressed_event(1, arrival, "turn", NOW).payload == arrival.raw
        return
    for one in ids:
        assert is_storable(one.execution_id)
        assert is_storable(one.correlation_id)
        where = Address(1, one.execution_id, one.correlation_id)
        offer = offer_of(where, one.fields, arrival, "turn")
        assert decode_messages(encode_batch([offer])) == [offer]


@MANY
@given(
    RAW | VALUES.map(as_json),
    st.none() | st.sampled_from(["application/json", "text/plain", "application/x+json"]),
    st.booleans(),
)
def test_any_data(member: bytes, declared: str | None, structured: bool) -> None:
    for read in (
        lambda: from_json(member, declared, structured=structured),
        lambda: from_base64("data_base64", member, declared),
        lambda: from_body("body", member, declared),
    ):
        try:
            found = read()
        except InvalidError:
            continue
        assert isinstance(found, EventData)
        assert found.content is None or isinstance(found.content, bytes)
