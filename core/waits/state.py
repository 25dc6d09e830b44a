"""The per-correlation actor's mind: state, a message and the time in; new state and effects out."""

import msgspec

from core.shared.address import Address
from core.waits.messages import Difference, Offer, Reason, Reply, Verdict
from core.waits.spec import Source, WaitSpec
from core.waits.strategy import Ending, Outcome, Status


class EventState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one expected event stands, and which event made it so.

    A pending one with a time was promised then.
    """

    outcome: Outcome = Outcome.PENDING
    at: float = 0.0
    seq: int = 0
    event_id: str = ""
    turn_id: str = ""
    size: int = 0
    """The bytes of its data."""


PENDING = EventState()
# The kind of a log's first line where Muster itself asks for the events.
GATHER_ENTRY = "asked"


def to_stored(moment: float) -> float:
    """A moment as Postgres keeps it, to the microsecond.

    Rows and memory must agree exactly: a deadline that the timer read from the row and fired
    has passed for the wait as well.
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
        """Waiting, or how it ended."""
        return self.ending.status if self.ending else Status.WAITING

    def deadline_of(self, index: int) -> float:
        """When the event at this place in the configuration is given up."""
        timeout = self.spec.events[index].timeout
        if timeout is None or timeout >= self.spec.timeout:
            return self.expires_at
        return to_stored(self.opened_at + timeout)

    @property
    def due_at(self) -> float:
        """The next deadline; after the end it stays where it was, so that no index changes."""
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
        """Event name → outcome."""
        outcomes = [mark.outcome for mark in self.marks]
        return dict(zip(self.spec.names, outcomes, strict=True))

    def index_of(self, name: str) -> int:
        """The place of a named event in the configuration."""
        return next(i for i, event in enumerate(self.spec.events) if event.name == name)


class WaitLogEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a correlation's append-only log; payloads live here once."""

    seq: int
    kind: str
    event: str | None
    event_id: str
    source: Source | None
    label: str
    payload: bytes
    content_type: str
    at: float


class ParkedEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event that found no place in a correlation: early or refused, kept with its verdict."""

    address: Address
    turn_id: str
    event_id: str
    source: Source
    label: str
    payload: bytes
    content_type: str
    verdict: Verdict
    reason: Reason
    clause: Difference | None
    at: float
    outcome: Outcome = Outcome.RECEIVED

    def to_offer(self) -> Offer:
        """The event as it was offered first: the same ids, so that trying again counts once."""
        return Offer(
            address=self.address,
            turn_id=self.turn_id,
            event_id=self.event_id,
            source=self.source,
            label=self.label,
            payload=self.payload,
            content_type=self.content_type,
            outcome=self.outcome,
        )


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one turn leads to. All of it is committed together, or none of it."""

    wait: Wait | None
    reply: Reply
    entries: tuple[WaitLogEntry, ...] = ()
    parked: tuple[ParkedEvent, ...] = ()
    taken_from_inbox: tuple[str, ...] = ()
