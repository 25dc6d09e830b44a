"""The messages to a correlation and its replies."""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from core.shared.address import Address
from core.shared.media_types import JSON
from core.waits.spec import Source
from core.waits.strategy import Outcome, Status


class Verdict(StrEnum):
    """How an incoming event was judged."""

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
    """`turn_id` stays the same over retries, so a repeated message gets the same reply."""

    address: Address
    turn_id: str


class Register(_Message, frozen=True, tag="register"):
    """Open the wait. `fresh`: this request made the ids, so no earlier message can have them."""

    node_id: str
    spec: bytes
    fresh: bool = False
    asked: bytes = b""
    """The gather's request, stored as the first entry of the log."""


class Offer(_Message, frozen=True, tag="offer"):
    """Offer an event; `label` is the topic or the service it came from."""

    event_id: str
    source: Source
    label: str
    payload: bytes
    content_type: str = JSON
    outcome: Outcome = Outcome.RECEIVED
    by_token: bool = False
    """Whether the sender authenticated only by the token of a callback URL."""


class Expire(_Message, frozen=True, tag="expire"):
    """Apply the deadlines that have passed: the database's clock is past `at`."""

    at: float


class Accept(_Message, frozen=True, tag="accept"):
    """Record that the resource has agreed to send this event."""

    event: str


class Cancel(_Message, frozen=True, tag="cancel"):
    """Cancel the wait: nobody needs its result."""


class Abandon(_Message, frozen=True, tag="abandon"):
    """Report that the last reader of `feed` has disconnected; other feeds may have readers."""

    feed: str


WaitMessage: TypeAlias = Register | Offer | Accept | Expire | Cancel | Abandon


class Difference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The part of a rule that an event failed, with both values."""

    rule: str
    expected: Any
    actual: Any
    is_absent: bool = False
    """Whether the event has no such field, which is not the same as null."""

    def __str__(self) -> str:
        text = f"{self.rule} expected {msgspec.json.encode(self.expected).decode()}"
        if self.is_absent:
            return f"{text}, but the event has no {self.rule.removeprefix('filter.')}"
        return f"{text}, got {msgspec.json.encode(self.actual).decode()}"


class _Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    pass


class OfferReply(_Reply, frozen=True, tag="judged"):
    verdict: Verdict
    reason: Reason
    event: str | None = None
    clause: Difference | None = None
    status: Status | None = None
    seq: int = 0

    @property
    def is_log_only(self) -> bool:
        """Return whether the event does not count but may be logged."""
        return self.verdict is Verdict.DUPLICATE or self.verdict is Verdict.LATE


class RegisterReply(_Reply, frozen=True, tag="opened"):
    """Reply to Register. `created` is False if the same wait existed already."""

    created: bool
    status: Status
    version: int
    opened_at: float
    expires_at: float


class StatusReply(_Reply, frozen=True, tag="standing"):
    """Reply to Accept, Cancel, Abandon and Expire: the status of the wait."""

    status: Status
    changed: bool


class RefusalKind(StrEnum):
    """Why a message was refused."""

    UNKNOWN = "unknown"
    CONFLICT = "conflict"
    OVERLOADED = "overloaded"
    """A limit is reached: the same message may be accepted later."""
    FAILED = "failed"
    """This message failed; another attempt may succeed."""
    FULL = "full"
    """Permanent: the event would only be logged, and the log is full."""
    BROKEN = "broken"
    """Permanent: the message cannot be stored."""
    TOKEN_EXPIRED = "token_expired"  # noqa: S105  a reason's name


class RefusedReply(_Reply, frozen=True, tag="refused"):
    """The message changed nothing and is not stored."""

    kind: RefusalKind
    detail: str
    existing: str | None = None
    verdict: Verdict | None = None
    """The verdict on an event that is refused because it cannot be logged."""

    @property
    def is_transient(self) -> bool:
        return self.kind in {RefusalKind.OVERLOADED, RefusalKind.FAILED}


Reply: TypeAlias = OfferReply | RegisterReply | StatusReply | RefusedReply
