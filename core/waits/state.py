"""The state of a correlation, its log and inbox entries, and the result of one message."""

import msgspec

from core.shared.address import Address
from core.waits.messages import Difference, Offer, Reason, Reply, Verdict
from core.waits.spec import Source, WaitSpec
from core.waits.strategy import Ending, Outcome, Status


class EventState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The outcome of one expected event, and the incoming event that led to it.

    A pending event with a time `at` was promised by its resource at that time.
    """

    outcome: Outcome = Outcome.PENDING
    at: float = 0.0
    seq: int = 0
    event_id: str = ""
    turn_id: str = ""
    size: int = 0
    """The bytes of its data."""


PENDING = EventState()
# The kind of the first log entry of a gather.
GATHER_ENTRY = "asked"


def to_stored(moment: float) -> float:
    """Round a time to the microsecond, as Postgres stores it.

    Memory and row must agree exactly: when a timer fires at the deadline in the row, the
    deadline in memory must have passed too.
    """
    return round(moment, 6)


class Wait(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One correlation. `marks` follow the order of `spec.events`."""

    address: Address
    node_id: str
    spec: WaitSpec
    registered_by: str
    opened_at: float
    expires_at: float
    """The overall deadline."""
    version: int = 1
    marks: tuple[EventState, ...]
    log_length: int = 0
    ending: Ending | None = None

    @property
    def status(self) -> Status:
        return self.ending.status if self.ending else Status.WAITING

    def deadline_of(self, index: int) -> float:
        """Return the deadline of the event with this index in the configuration."""
        timeout = self.spec.events[index].timeout
        if timeout is None or timeout >= self.spec.timeout:
            return self.expires_at
        return to_stored(self.opened_at + timeout)

    @property
    def due_at(self) -> float:
        """Return the next deadline; it stays the same after the end, so that no index changes."""
        if not self.spec.staggered:
            return self.expires_at
        pending = [
            self.deadline_of(i)
            for i, mark in enumerate(self.marks)
            if mark.outcome is Outcome.PENDING
        ]
        return min(pending, default=self.expires_at)

    @property
    def outcomes(self) -> dict[str, Outcome]:
        outcomes = [mark.outcome for mark in self.marks]
        return dict(zip(self.spec.names, outcomes, strict=True))

    def index_of(self, name: str) -> int:
        return next(i for i, event in enumerate(self.spec.events) if event.name == name)


class WaitLogEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a correlation's append-only log, the only place where payloads are stored.

    The fields are in the order of the columns.
    """

    seq: int
    kind: str
    event: str | None = None
    event_id: str
    source: Source | None = None
    label: str = ""
    content_type: str = ""
    payload: bytes = b""
    at: float


class ParkedEvent(Offer, frozen=True, kw_only=True, gc=False):
    """An offer in the inbox, with its verdict: it came before its wait or was refused."""

    verdict: Verdict
    reason: Reason
    clause: Difference | None = None
    at: float

    @property
    def sentence(self) -> str:
        """Say why the event did not count."""
        reason = self.reason.replace("_", " ")
        return reason if self.clause is None else f"{reason}: {self.clause}"

    def to_offer(self) -> Offer:
        """Return the original offer with the same ids, so that a second attempt counts once."""
        return Offer(**{name: getattr(self, name) for name in Offer.__struct_fields__})


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one message, committed in one transaction."""

    wait: Wait | None
    reply: Reply
    entries: tuple[WaitLogEntry, ...] = ()
    parked: tuple[ParkedEvent, ...] = ()
    taken_from_inbox: tuple[str, ...] = ()
