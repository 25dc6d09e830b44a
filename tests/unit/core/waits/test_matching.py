from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from actors.messaging.shard_messages import decode_replies, encode_batch
from core.waits.matching import NoMatch, candidates, first_difference
from core.waits.messages import Difference, Offer, OfferReply, Reason, Reply, Verdict
from core.waits.spec import ExpectedEvent, Source, WaitSpec
from tests.unit.core.waits.builders import offer

ANY_API = ExpectedEvent(name="any_api", source=Source.API)
RISK = ExpectedEvent(name="risk", source=Source.API, label="risk")
ORDERS = ExpectedEvent(name="orders", source=Source.KAFKA, label="orders")
DONE = ExpectedEvent(name="done", source=Source.KAFKA, label="orders", filter={"kind": "done"})
BIG = ExpectedEvent(
    name="big", source=Source.KAFKA, label="orders", filter={"kind": "done", "total": 9}
)


def names(events: list[ExpectedEvent], event: Offer) -> list[str]:
    found = candidates(WaitSpec(events=tuple(events)), event)
    assert isinstance(found, list), found
    return [one.name for _, one in found]


def mismatch(events: list[ExpectedEvent], event: Offer) -> NoMatch:
    found = candidates(WaitSpec(events=tuple(events)), event)
    assert isinstance(found, NoMatch), found
    return found


def kafka(topic: str = "orders", payload: bytes = b"{}") -> Offer:
    return offer("e", Source.KAFKA, topic, payload)


def test_an_event_fits_its_source_and_label() -> None:
    assert names([ANY_API, ORDERS], kafka()) == ["orders"]
    assert names([ANY_API, ORDERS], offer("e", label="whoever")) == ["any_api"]


def test_a_kafka_event_on_a_wait_without_kafka() -> None:
    assert mismatch([ANY_API, RISK], kafka()) == NoMatch(
        Reason.SOURCE_NOT_EXPECTED, Difference("source", ["api"], "kafka")
    )


def test_the_api_side_is_symmetric() -> None:
    assert mismatch([ORDERS], offer("e")) == NoMatch(
        Reason.SOURCE_NOT_EXPECTED, Difference("source", ["kafka"], "api")
    )


def test_a_wait_for_nothing_expects_no_source() -> None:
    assert mismatch([], kafka()).clause == Difference("source", [], "kafka")


def test_another_topic() -> None:
    assert mismatch([ANY_API, ORDERS], kafka("payments")) == NoMatch(
        Reason.LABEL_NOT_EXPECTED, Difference("topic", ["orders"], "payments")
    )


def test_another_service() -> None:
    assert mismatch([RISK, ORDERS], offer("e", label="fraud")) == NoMatch(
        Reason.LABEL_NOT_EXPECTED, Difference("service", ["risk"], "fraud")
    )


def test_filtered_out_tells_clause_and_both_values() -> None:
    assert mismatch([DONE], kafka(payload=b'{"kind":"started"}')) == NoMatch(
        Reason.FILTERED_OUT, Difference("filter.kind", "done", "started")
    )


def test_every_key_of_a_filter_must_equal() -> None:
    assert names([BIG], kafka(payload=b'{"kind":"done","total":9}')) == ["big"]
    assert mismatch([BIG], kafka(payload=b'{"kind":"done","total":8}')).clause == Difference(
        "filter.total", 9, 8
    )


def test_the_first_clause_of_the_first_event_is_the_nearest() -> None:
    small = ExpectedEvent(name="small", source=Source.KAFKA, label="orders", filter={"total": 1})
    event = kafka(payload=b'{"total":9}')
    assert mismatch([DONE, small], event).clause == Difference(
        "filter.kind", "done", None, is_absent=True
    )
    assert mismatch([small, DONE], event).clause == Difference("filter.total", 1, 9)


def test_the_most_particular_comes_first_whatever_the_configuration_order() -> None:
    event = kafka(payload=b'{"kind":"done","total":9}')
    assert names([ORDERS, DONE, BIG], event) == ["big", "done", "orders"]
    assert names([ANY_API, RISK], offer("e", label="risk")) == ["risk", "any_api"]


def test_one_events_token_does_not_fulfil_the_event_that_anybody_may() -> None:
    risk = replace(offer("e", label="risk"), by_token=True)
    assert names([ANY_API, RISK], risk) == ["risk"]
    stranger = replace(offer("e", label="external-service"), by_token=True)
    assert names([ANY_API, RISK], stranger) == ["any_api"]
    assert mismatch([RISK], stranger).reason is Reason.LABEL_NOT_EXPECTED


def test_equals_keep_the_order_of_the_configuration() -> None:
    twins = [ExpectedEvent(name=name, source=Source.API) for name in ("one", "two")]
    assert names(twins, offer("e")) == ["one", "two"]


@pytest.mark.parametrize(
    "payload", [b"", b"nonsense", b"\xff\xfe", b'"\xff"', b"[" * 5000 + b"]" * 5000]
)
def test_a_payload_that_cannot_be_read_is_filtered_out_not_a_crash(payload: bytes) -> None:
    found = mismatch([DONE], kafka(payload=payload))
    clause = Difference("filter.kind", "done", None, is_absent=True)
    assert found == NoMatch(Reason.FILTERED_OUT, clause)


def test_a_payload_is_not_read_where_nothing_filters() -> None:
    assert names([ORDERS], kafka(payload=b"\xff not json")) == ["orders"]


@pytest.mark.parametrize(
    ("filter_", "document", "clause"),
    [
        ({}, None, None),
        ({"a.b[1]": 2}, {"a": {"b": [1, 2]}}, None),
        ({"a": None}, {"a": None}, None),
        ({"a": None}, {}, Difference("filter.a", None, None, is_absent=True)),
        ({"a": True}, {"a": 1}, Difference("filter.a", True, 1)),
        ({"a": 1}, {"a": "x" * 300}, Difference("filter.a", 1, "x" * 200 + "…")),
        ({"a": 1}, {"a": [1]}, Difference("filter.a", 1, "a list")),
        ({"a": 1}, {"a": {"b": 1}}, Difference("filter.a", 1, "an object")),
        ({"a": {"b": True}}, {"a": {"b": 1}}, Difference("filter.a", {"b": True}, "an object")),
        ({"a": 1}, {"a": 10**30}, Difference("filter.a", 1, "1" + "0" * 30)),
        ({"a": 1}, {"a": -(10**300)}, Difference("filter.a", 1, "-1" + "0" * 198 + "…")),
    ],
)
def test_the_clause_that_failed(
    filter_: dict[str, Any], document: Any, clause: Difference | None
) -> None:
    assert first_difference(filter_, document) == clause


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**40])
def test_any_number_a_sender_writes_can_be_told_back(number: int) -> None:
    """A reply travels in a batch as msgpack: one number too long would spoil all of it."""
    found = mismatch([DONE], kafka(payload=msgspec.json.encode({"kind": number})))
    reply: Reply = OfferReply(verdict=Verdict.REJECTED, reason=found.reason, clause=found.clause)
    assert decode_replies(encode_batch([reply])) == [reply]
