"""What may be said to a correlation, and what it answers. Encoded once per batch for the wire."""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from core.shared.address import Address
from core.shared.media_types import JSON
from core.waits.spec import Source
from core.waits.strategy import Outcome, Status


class Verdict(StrEnum):
    """What became of an incoming event."""

    MATCHED = "matched"
    BUFFERED = "buffered"
    DUPLICATE = "duplicate"
    LATE = "late"
    REJECTED = "rejected"


class Reason(StrEnum):
    """Why an event got its verdict."""

    EXPECTED = "expected"
    NO_WAIT_YET = "no_wait_yet"
    ALREADY_RECEIVED = "already_received"
    WAIT_ENDED = "wait_ended"
    DEADLINE_PASSED = "deadline_passed"
    SOURCE_NOT_EXPECTED = "source_not_expected"
    LABEL_NOT_EXPECTED = "label_not_expected"
    FILTERED_OUT = "filtered_out"
    EXECUTION_MISMATCH = "execution_mismatch"
    MISSING_ID = "missing_id"
    TOO_MANY_EARLY = "too_many_early"
    TOO_LARGE_TOGETHER = "too_large_together"


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`turn_id` is minted once per request and kept over retries: asking twice answers the same."""

    address: Address
    turn_id: str


class Register(_Message, frozen=True, tag="register"):
    """Open the wait. `fresh`: this request minted the ids, so nobody can have used them before."""

    node_id: str
    spec: bytes
    fresh: bool = False
    asked: bytes = b""
    """What Muster is to ask for, kept as the first line of the log."""


class Offer(_Message, frozen=True, tag="offer"):
    """Here is an event; `label` is the topic or the service it came from."""

    event_id: str
    source: Source
    label: str
    payload: bytes
    content_type: str = JSON
    outcome: Outcome = Outcome.RECEIVED
    by_token: bool = False
    """Its sender proved no more than that one wait's callback URL was given to it."""


class Expire(_Message, frozen=True, tag="expire"):
    """The database's clock has passed `at`: look at your deadlines."""

    at: float


class Accept(_Message, frozen=True, tag="accept"):
    """The one who was asked for this event has agreed to send it."""

    event: str


class Cancel(_Message, frozen=True, tag="cancel"):
    """Nobody needs the result any more."""


class Abandon(_Message, frozen=True, tag="abandon"):
    """The last reader that `feed` knows of went away; others may still be there."""

    feed: str


WaitMessage: TypeAlias = Register | Offer | Accept | Expire | Cancel | Abandon


class Difference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The part of a rule that an event failed, with both values."""

    rule: str
    expected: Any
    actual: Any


class OfferReply(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="judged", gc=False
):
    """Answer to an Offer."""

    verdict: Verdict
    reason: Reason
    event: str | None = None
    clause: Difference | None = None
    status: Status | None = None
    seq: int = 0

    @property
    def is_log_only(self) -> bool:
        """Whether the event does not count, but may get a line in the log."""
        return self.verdict is Verdict.DUPLICATE or self.verdict is Verdict.LATE


class RegisterReply(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="opened", gc=False
):
    """Answer to Register. `created` is False when the same wait was there already."""

    created: bool
    status: Status
    version: int
    opened_at: float
    expires_at: float


class StatusReply(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="standing", gc=False
):
    """Answer to Accept, Cancel, Abandon and Expire: how the wait stands now."""

    status: Status
    changed: bool


class RefusalKind(StrEnum):
    """Why a message was not taken."""

    UNKNOWN = "unknown"
    CONFLICT = "conflict"
    OVERLOADED = "overloaded"
    """Not now, whatever the message: a bound was reached."""
    FAILED = "failed"
    """Not now, this message: another try may succeed, others are taken meanwhile."""
    FULL = "full"
    """Never: it would only be noted, and there is no room for more notes."""
    BROKEN = "broken"
    """Never: it cannot be stored."""
    TOKEN_EXPIRED = "token_expired"  # noqa: S105  a reason's name


class RefusedReply(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="refused", gc=False
):
    """The message changed nothing and is not stored."""

    kind: RefusalKind
    detail: str
    existing: str | None = None
    verdict: Verdict | None = None
    """What the event is nevertheless, if it is refused because it cannot be noted."""

    @property
    def is_transient(self) -> bool:
        """Whether the same message may be taken later."""
        return self.kind in {RefusalKind.OVERLOADED, RefusalKind.FAILED}


Reply: TypeAlias = OfferReply | RegisterReply | StatusReply | RefusedReply

_encoder = msgspec.msgpack.Encoder()
_messages = msgspec.msgpack.Decoder(list[WaitMessage])
_replies = msgspec.msgpack.Decoder(list[Reply])


def encode_batch(batch: list[WaitMessage] | list[Reply]) -> bytes:
    """One batch as one value: Ray then pickles bytes, not objects."""
    return _encoder.encode(batch)


def decode_messages(raw: bytes) -> list[WaitMessage]:
    """The batch a caller sent."""
    return _messages.decode(raw)


def decode_replies(raw: bytes) -> list[Reply]:
    """The answers, in the order of the messages."""
    return _replies.decode(raw)
