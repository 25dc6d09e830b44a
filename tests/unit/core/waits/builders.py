"""One correlation in memory: it does with decisions what a shard and its storage do."""

from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from actors.messaging.shard_messages import decode_messages, decode_replies, encode_batch
from core.shared.address import Address
from core.waits.inbox import UNREGISTERED, UnregisteredAddress
from core.waits.limits import DEFAULT_LIMITS, WaitLimits
from core.waits.messages import (
    Abandon,
    Accept,
    Cancel,
    Expire,
    Offer,
    OfferReply,
    Reason,
    Register,
    Reply,
    Verdict,
    WaitMessage,
)
from core.waits.output import aggregate
from core.waits.spec import Source, WaitSpec, decode_spec, encode_spec
from core.waits.state import Decision, EventState, ParkedEvent, Wait, WaitLogEntry
from core.waits.strategy import Ending, Outcome
from core.waits.transitions import apply

ADDRESS = Address(7, "exec-1", "corr-1")
START = 1_763_251_200.123456


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said, to what state, and what came of it."""

    before: Wait | None
    message: WaitMessage
    decision: Decision


@dataclass(slots=True)
class SingleCorrelation:
    """`wait` is the row, `inbox` the parked events, `log` the lines; each under its own key."""

    wait: Wait | None = None
    inbox: dict[str, ParkedEvent] = field(default_factory=dict)
    log: dict[str, WaitLogEntry] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    limits: WaitLimits = DEFAULT_LIMITS

    def say(self, message: WaitMessage, now: float) -> Reply:
        """Send over the wire, decide, commit, answer over the wire."""
        (message,) = decode_messages(encode_batch([message]))
        decision = apply(self.wait, message, now, self._unregistered(), self.limits)
        self.turns.append(Turn(self.wait, message, decision))
        self.wait = decision.wait
        for entry in decision.entries:
            self.log.setdefault(entry.event_id, entry)
        for event_id in decision.taken_from_inbox:
            del self.inbox[event_id]
        for parked in decision.parked:
            self._park(parked)
        (reply,) = decode_replies(encode_batch([decision.reply]))
        assert reply == decision.reply
        return reply

    def restart(self) -> None:
        """Forget everything but the row, and rebuild from it."""
        if self.wait is not None:
            self.wait = reloaded(self.wait)

    @property
    def output(self) -> dict[str, object]:
        """What the wait hands on if it were over now."""
        wait = self.waiting_or_ended
        marks = zip(wait.spec.events, wait.marks, strict=True)
        payloads = {e.name: self.log[m.event_id].payload for e, m in marks if m.event_id}
        output: dict[str, object] = msgspec.json.decode(
            msgspec.json.encode(aggregate(wait, payloads))
        )
        return output

    @property
    def waiting_or_ended(self) -> Wait:
        """The wait, which must have been registered."""
        assert self.wait is not None
        return self.wait

    def _unregistered(self) -> UnregisteredAddress:
        if self.wait is not None:
            return UNREGISTERED
        early = [event for event in self.inbox.values() if event.verdict is Verdict.BUFFERED]
        refused = [e for e in self.inbox.values() if e.reason is Reason.TOO_MANY_EARLY]
        sizes = {event.event_id: len(event.payload) for event in early}
        return UnregisteredAddress(early=tuple(early), sizes=sizes, refused=len(refused))

    def _park(self, parked: ParkedEvent) -> None:
        known = self.inbox.get(parked.event_id)
        if known is None:
            self.inbox[parked.event_id] = parked
        elif known.verdict is Verdict.BUFFERED:
            changed = {"verdict": parked.verdict, "reason": parked.reason, "clause": parked.clause}
            self.inbox[parked.event_id] = replace(known, **changed)


def reloaded(wait: Wait) -> Wait:
    """The wait as its row gives it back: JSON columns, and moments in whole microseconds."""
    ending = None
    if wait.ending is not None:
        ending = msgspec.json.decode(msgspec.json.encode(wait.ending), type=Ending)
    return Wait(
        address=wait.address,
        node_id=wait.node_id,
        spec=decode_spec(encode_spec(wait.spec)),
        registered_by=wait.registered_by,
        opened_at=as_column(wait.opened_at),
        expires_at=as_column(wait.expires_at),
        version=wait.version,
        marks=msgspec.json.decode(msgspec.json.encode(wait.marks), type=tuple[EventState, ...]),
        log_length=wait.log_length,
        ending=ending,
    )


def as_column(moment: float) -> float:
    """A moment that went through a timestamptz column."""
    return round(moment * 1_000_000) / 1_000_000


def register(
    spec: WaitSpec, turn_id: str = "reg-1", node_id: str = "node-1", asked: bytes = b""
) -> Register:
    """The message that opens the wait."""
    return Register(
        address=ADDRESS, turn_id=turn_id, node_id=node_id, spec=encode_spec(spec), asked=asked
    )


def offer(
    event_id: str,
    source: Source = Source.API,
    label: str = "ext",
    payload: bytes = b"{}",
    outcome: Outcome = Outcome.RECEIVED,
) -> Offer:
    """An event; its request has an id of its own."""
    return Offer(
        address=ADDRESS,
        turn_id=f"turn-{event_id}",
        event_id=event_id,
        source=source,
        label=label,
        payload=payload,
        outcome=outcome,
    )


def expire(at: float, turn_id: str = "timer-1") -> Expire:
    """The timer's word that `at` has passed."""
    return Expire(address=ADDRESS, turn_id=turn_id, at=at)


def cancel(turn_id: str = "cancel-1") -> Cancel:
    """A caller's word that it needs nothing any more."""
    return Cancel(address=ADDRESS, turn_id=turn_id)


def accept(event: str, turn_id: str = "accept-1") -> Accept:
    """The word that somebody has agreed to send this event."""
    return Accept(address=ADDRESS, turn_id=turn_id, event=event)


def abandon(turn_id: str = "abandon-1") -> Abandon:
    """A replica's word that its last reader went away."""
    return Abandon(address=ADDRESS, turn_id=turn_id, feed="replica-1")


def verdict_and_reason(reply: Reply) -> tuple[Verdict, Reason]:
    """Verdict and reason of an answer to an offer."""
    assert isinstance(reply, OfferReply)
    return reply.verdict, reply.reason
