import msgspec
import pytest

from actors.messaging.shard_messages import decode_messages, decode_replies, encode_batch
from core.waits.messages import (
    Difference,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    RegisterReply,
    Reply,
    StatusReply,
    Verdict,
    WaitMessage,
)
from core.waits.spec import Source, WaitSpec
from core.waits.strategy import Outcome, Status
from tests.unit.core.waits.builders import ADDRESS, abandon, accept, cancel, expire, offer, register

MESSAGES: list[WaitMessage] = [
    register(WaitSpec(events=())),
    register(WaitSpec(events=(), gather=True), asked=b'{"asks":[]}'),
    offer("e-1", Source.KAFKA, "orders", b"\x00\xff", Outcome.REJECTED),
    offer("e-2"),
    expire(12.5),
    accept("one"),
    cancel(),
    abandon(),
]
REPLIES: list[Reply] = [
    OfferReply(
        verdict=Verdict.REJECTED,
        reason=Reason.FILTERED_OUT,
        clause=Difference("filter.a", {"x": [1, None]}, "dict"),
        status=Status.WAITING,
    ),
    OfferReply(verdict=Verdict.MATCHED, reason=Reason.EXPECTED, event="a", seq=3),
    RegisterReply(created=True, status=Status.WAITING, version=1, opened_at=1.5, expires_at=2.5),
    StatusReply(status=Status.CANCELLED, changed=False),
    RefusedReply(kind=RefusalKind.CONFLICT, detail="why", existing="corr"),
    RefusedReply(kind=RefusalKind.FULL, detail="why", verdict=Verdict.LATE),
]


def test_a_batch_of_messages_travels_as_one_value() -> None:
    assert decode_messages(encode_batch(MESSAGES)) == MESSAGES


def test_a_batch_of_replies_travels_as_one_value() -> None:
    assert decode_replies(encode_batch(REPLIES)) == REPLIES


def test_an_empty_batch() -> None:
    assert decode_messages(encode_batch([])) == []


def test_an_address_travels_with_every_message() -> None:
    assert all(message.address == ADDRESS for message in decode_messages(encode_batch(MESSAGES)))


@pytest.mark.parametrize("raw", [b"", b"\x91\x80", b"\x91\x81\xa4type\xa4boom", b"not msgpack"])
def test_what_is_no_batch_is_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_messages(raw)


def test_only_what_may_change_is_worth_another_try() -> None:
    passing = {kind for kind in RefusalKind if RefusedReply(kind=kind, detail="").is_transient}
    assert passing == {RefusalKind.OVERLOADED, RefusalKind.FAILED}
