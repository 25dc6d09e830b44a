"""The state machine of a correlation: applies one message without I/O or waiting."""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from core.shared.media_types import JSON
from core.waits.inbox import UNREGISTERED, UnregisteredAddress, park_offer, parked_event
from core.waits.limits import DEFAULT_LIMITS, WaitLimits
from core.waits.matching import NoMatch, candidates
from core.waits.messages import (
    Abandon,
    Accept,
    Cancel,
    Difference,
    Expire,
    Offer,
    OfferReply,
    Reason,
    RefusalKind,
    RefusedReply,
    Register,
    RegisterReply,
    Reply,
    StatusReply,
    Verdict,
    WaitMessage,
)
from core.waits.spec import ExpectedEvent, Slot, decode_spec, same_spec
from core.waits.state import (
    GATHER_ENTRY,
    PENDING,
    Decision,
    EventState,
    ParkedEvent,
    Wait,
    WaitLogEntry,
    to_stored,
)
from core.waits.strategy import Ending, Outcome, Status, decide_ending


def apply(
    wait: Wait | None,
    message: WaitMessage,
    now: float,
    found: UnregisteredAddress = UNREGISTERED,
    limits: WaitLimits = DEFAULT_LIMITS,
) -> Decision:
    """Apply a message at the database's time `now`; without a wait, `found` is its inbox."""
    if wait is None:
        return _first_contact(message, now, found, limits)
    if wait.spec.lost and isinstance(message, Offer):
        # The event is kept until a repeated registration restores the spec.
        return replace(park_offer(message, now, found, limits), wait=wait)
    match message:
        case Register():
            return _open_again(wait, message)
        case Offer():
            return _offer(wait, message, now, limits)
        case Expire():
            return _expire(wait, max(now, message.at))
        case Accept():
            return _accept(wait, message, now)
        case Cancel():
            return _cancel(wait, message, now, "cancelled by a caller")
        case Abandon():
            return _cancel(wait, message, now, "its last reader disconnected")
        case _:
            assert_never(message)


def _first_contact(
    message: WaitMessage, now: float, found: UnregisteredAddress, limits: WaitLimits
) -> Decision:
    match message:
        case Register():
            return _open(message, now, found.early, limits)
        case Offer(by_token=True):
            detail = "this callback token has expired: its wait has ended and was removed"
            reply = RefusedReply(kind=RefusalKind.TOKEN_EXPIRED, detail=detail)
            return Decision(wait=None, reply=reply)
        case Offer():
            return park_offer(message, now, found, limits)
        case Expire() | Accept() | Cancel() | Abandon():
            detail = f"no wait state {message.address.scoped_id}"
            return Decision(wait=None, reply=RefusedReply(kind=RefusalKind.UNKNOWN, detail=detail))
        case _:
            assert_never(message)


def _open(
    message: Register, now: float, early: Sequence[ParkedEvent], limits: WaitLimits
) -> Decision:
    spec = decode_spec(message.spec)
    wait = Wait(
        address=message.address,
        node_id=message.node_id,
        spec=spec,
        registered_by=message.turn_id,
        opened_at=to_stored(now),
        expires_at=to_stored(now + spec.timeout),
        marks=(PENDING,) * len(spec.events),
    )
    asked: tuple[WaitLogEntry, ...] = ()
    if message.asked:
        wait = replace(wait, log_length=1)
        asked = (_asked_entry(message, now),)
    if spec.needed_slots[1] == 0:
        wait = _conclude(wait, now)  # nothing to wait for
    opened = Decision(wait=wait, reply=_opened(wait, created=True), entries=asked)
    return _with_early(opened, wait, now, early, limits) if early else opened


def _with_early(
    opened: Decision, wait: Wait, now: float, early: Sequence[ParkedEvent], limits: WaitLimits
) -> Decision:
    """Offer the early events to a new wait in the order of their arrival."""
    entries: list[WaitLogEntry] = [*opened.entries]
    kept: list[ParkedEvent] = []
    for event in sorted(early, key=lambda parked: (parked.at, parked.event_id)):
        decision = _take_up(wait, event.to_offer(), now, limits)
        # The registration and its early events are stored as the row's first version.
        wait = replace(decision.wait or wait, version=1)
        entries.extend(decision.entries)
        kept.extend(replace(again, at=event.at) for again in decision.parked)
    stay = {again.event_id for again in kept}
    return Decision(
        wait=wait,
        reply=_opened(wait, created=True),
        entries=tuple(entries),
        parked=tuple(kept),
        taken_from_inbox=tuple(event.event_id for event in early if event.event_id not in stay),
    )


def _take_up(wait: Wait, offer: Offer, now: float, limits: WaitLimits) -> Decision:
    """Offer an early event; if it would only be logged and the log is full, keep it parked."""
    decision = _offer(wait, offer, now, limits)
    reply = decision.reply
    if (
        wait.log_length < limits.log_lines
        or not isinstance(reply, OfferReply)
        or not reply.is_log_only
    ):
        return decision
    return Decision(wait=wait, reply=reply, parked=(parked_event(offer, reply, now),))


def _open_again(wait: Wait, message: Register) -> Decision:
    """Accept a repeated registration; refuse one that differs from the first."""
    if wait.registered_by == message.turn_id:
        return Decision(wait=wait, reply=_opened(wait, created=True))
    if wait.node_id == message.node_id and same_spec(wait.spec, decode_spec(message.spec)):
        return Decision(wait=wait, reply=_opened(wait, created=False))
    detail = f"{wait.address.scoped_id} is registered with another node or configuration"
    refused = RefusedReply(
        kind=RefusalKind.CONFLICT, detail=detail, existing=wait.address.correlation_id
    )
    return Decision(wait=wait, reply=refused)


def _opened(wait: Wait, *, created: bool) -> RegisterReply:
    return RegisterReply(
        created=created,
        status=wait.status,
        version=wait.version,
        opened_at=wait.opened_at,
        expires_at=wait.expires_at,
    )


def _offer(wait: Wait, offer: Offer, now: float, limits: WaitLimits) -> Decision:
    known = _seen_before(wait, offer)
    if known is not None:
        return Decision(wait=wait, reply=known)
    found = candidates(wait.spec, offer)
    if isinstance(found, NoMatch):
        return _reject(wait, offer, now, found)
    if wait.ending is not None:
        return _log_only(wait, offer, now, Verdict.LATE, Reason.WAIT_ENDED, found[0][1])
    if now < wait.due_at:
        return _fulfil(wait, offer, now, found, limits)
    wait, timeouts = _give_up(wait, now)
    if wait.ending is not None:
        late = _log_only(wait, offer, now, Verdict.LATE, Reason.DEADLINE_PASSED, found[0][1])
    else:
        late = _fulfil(wait, offer, now, found, limits)
    return replace(late, entries=timeouts + late.entries)


def verdict_if_only_logged(wait: Wait, offer: Offer, now: float) -> Verdict | None:
    """Return the verdict on an event that would only be logged, or None if it would count."""
    decision = _offer(wait, offer, now, DEFAULT_LIMITS)
    reply = decision.reply
    if decision.wait is wait or not isinstance(reply, OfferReply) or not reply.is_log_only:
        return None
    return reply.verdict


def _seen_before(wait: Wait, offer: Offer) -> Reply | None:
    """Return the reply to a repeated event, or None if the event is new."""
    for index, mark in enumerate(wait.marks):
        if mark.event_id != offer.event_id or not mark.event_id:
            continue
        again = mark.turn_id == offer.turn_id
        return OfferReply(
            verdict=Verdict.MATCHED if again else Verdict.DUPLICATE,
            reason=Reason.EXPECTED if again else Reason.ALREADY_RECEIVED,
            event=wait.spec.events[index].name,
            status=wait.status,
            seq=mark.seq,
        )
    return None


def _fulfil(
    wait: Wait, offer: Offer, now: float, found: list[Slot], limits: WaitLimits
) -> Decision:
    index, expected = _first_pending(wait, found)
    outcome = wait.marks[index].outcome
    if outcome is Outcome.TIMED_OUT:
        return _log_only(wait, offer, now, Verdict.LATE, Reason.DEADLINE_PASSED, expected)
    if outcome is not Outcome.PENDING:
        return _log_only(wait, offer, now, Verdict.DUPLICATE, Reason.ALREADY_RECEIVED, expected)
    size = together = len(offer.payload)
    for known in wait.marks:
        together += known.size
    if together > limits.result_bytes:
        clause = Difference("bytes", limits.result_bytes, together)
        return _reject(wait, offer, now, NoMatch(Reason.TOO_LARGE_TOGETHER, clause))
    seq = wait.log_length + 1
    mark = EventState(offer.outcome, now, seq, offer.event_id, offer.turn_id, size)
    marks = (*wait.marks[:index], mark, *wait.marks[index + 1 :])
    changed = replace(wait, marks=marks, log_length=seq, version=wait.version + 1)
    changed = _conclude(changed, now)
    return Decision(
        wait=changed,
        reply=OfferReply(
            verdict=Verdict.MATCHED,
            reason=Reason.EXPECTED,
            event=expected.name,
            status=changed.status,
            seq=seq,
        ),
        entries=(_entry(offer, seq, offer.outcome, expected.name, now),),
    )


def _reject(wait: Wait, offer: Offer, now: float, why: NoMatch) -> Decision:
    reply = OfferReply(
        verdict=Verdict.REJECTED, reason=why.reason, clause=why.clause, status=wait.status
    )
    return Decision(wait=wait, reply=reply, parked=(parked_event(offer, reply, now),))


def _first_pending(wait: Wait, found: list[Slot]) -> Slot:
    """Return the first candidate that is pending, or else the first candidate."""
    for place in found:
        if wait.marks[place[0]].outcome is Outcome.PENDING:
            return place
    return found[0]


def _log_only(
    wait: Wait, offer: Offer, now: float, verdict: Verdict, reason: Reason, expected: ExpectedEvent
) -> Decision:
    seq = wait.log_length + 1
    return Decision(
        wait=replace(wait, log_length=seq, version=wait.version + 1),
        reply=OfferReply(
            verdict=verdict, reason=reason, event=expected.name, status=wait.status, seq=seq
        ),
        entries=(_entry(offer, seq, verdict, expected.name, now),),
    )


def _expire(wait: Wait, now: float) -> Decision:
    changed, entries = _give_up(wait, now)
    reply = StatusReply(status=changed.status, changed=changed is not wait)
    return Decision(wait=changed, reply=reply, entries=entries)


def _give_up(wait: Wait, now: float) -> tuple[Wait, tuple[WaitLogEntry, ...]]:
    """Time out every event whose deadline has passed, then apply the strategy."""
    if wait.ending is not None or now < wait.due_at:
        return wait, ()
    changed, entries = wait, []
    for index, (expected, mark) in enumerate(zip(wait.spec.events, wait.marks, strict=True)):
        if mark.outcome is not Outcome.PENDING or now < wait.deadline_of(index):
            continue
        seq = changed.log_length + 1
        changed = replace(changed, log_length=seq)
        changed = _marked(changed, expected.name, EventState(Outcome.TIMED_OUT, now, seq))
        entries.append(_timeout_entry(expected, seq, now))
    changed = _conclude(replace(changed, version=wait.version + 1), now)
    return changed, tuple(entries)


def _accept(wait: Wait, message: Accept, now: float) -> Decision:
    """Record that a resource agreed, so that it is not called again after a restart."""
    mark = dict(zip(wait.spec.names, wait.marks, strict=True)).get(message.event)
    if wait.ending is not None or mark != PENDING:
        return Decision(wait=wait, reply=StatusReply(status=wait.status, changed=False))
    changed = _marked(wait, message.event, EventState(Outcome.PENDING, now))
    changed = replace(changed, version=wait.version + 1)
    return Decision(wait=changed, reply=StatusReply(status=wait.status, changed=True))


def _cancel(wait: Wait, message: Cancel | Abandon, now: float, reason: str) -> Decision:
    if wait.ending is not None:
        again = wait.ending.turn_id == message.turn_id
        return Decision(wait=wait, reply=StatusReply(status=wait.status, changed=again))
    ending = Ending(status=Status.CANCELLED, reason=reason, turn_id=message.turn_id)
    changed = _ended(replace(wait, version=wait.version + 1), ending, now)
    return Decision(wait=changed, reply=StatusReply(status=changed.status, changed=True))


def _conclude(wait: Wait, now: float) -> Wait:
    ending = decide_ending(wait.spec, [mark.outcome for mark in wait.marks])
    return wait if ending is None else _ended(wait, ending, now)


def _ended(wait: Wait, ending: Ending, now: float) -> Wait:
    # The end takes a number of the log without an entry there: the row stores the end.
    seq = wait.log_length + 1
    return replace(wait, log_length=seq, ending=replace(ending, at=now, seq=seq))


def _marked(wait: Wait, name: str, mark: EventState) -> Wait:
    index = wait.index_of(name)
    return replace(wait, marks=(*wait.marks[:index], mark, *wait.marks[index + 1 :]))


def _entry(offer: Offer, seq: int, kind: str, name: str, now: float) -> WaitLogEntry:
    return WaitLogEntry(
        seq=seq,
        kind=kind,
        event=name,
        event_id=offer.event_id,
        source=offer.source,
        label=offer.label,
        payload=offer.payload,
        content_type=offer.content_type,
        at=now,
    )


def _asked_entry(message: Register, now: float) -> WaitLogEntry:
    return WaitLogEntry(
        seq=1,
        kind=GATHER_ENTRY,
        event_id=GATHER_ENTRY,
        payload=message.asked,
        content_type=JSON,
        at=now,
    )


def _timeout_entry(expected: ExpectedEvent, seq: int, now: float) -> WaitLogEntry:
    return WaitLogEntry(
        seq=seq,
        kind=Outcome.TIMED_OUT.value,
        event=expected.name,
        event_id=f"timeout/{expected.name}",
        at=now,
    )
