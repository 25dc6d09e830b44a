"""Explains in words why a wait is not over, or why it ended as it did."""

from collections.abc import Sequence

import msgspec

from core.waits.state import ParkedEvent, Wait
from core.waits.strategy import Outcome, Status


class NearMiss(msgspec.Struct, frozen=True):
    """An event for these ids that did not count."""

    event_id: str
    source: str
    label: str
    verdict: str
    reason: str
    at: float
    sentence: str


class Explanation(msgspec.Struct, frozen=True):
    """One sentence for the wait and one for each of its events."""

    summary: str
    events: dict[str, str]
    near_misses: list[NearMiss]


def explain(wait: Wait, parked: Sequence[ParkedEvent], now: float) -> Explanation:
    """Explain the state of a wait; `parked` are the events for its ids that did not count."""
    return Explanation(
        summary=_summary(wait, now),
        events={
            event.name: _event(wait, index, now) for index, event in enumerate(wait.spec.events)
        },
        near_misses=[_near_miss(event) for event in parked],
    )


def _summary(wait: Wait, now: float) -> str:
    if wait.ending is None:
        names, enough = wait.spec.needed_names, wait.spec.needed_slots[1]
        outcomes = wait.outcomes
        have = sum(outcomes[name] is Outcome.RECEIVED for name in names)
        pending = ", ".join(name for name in names if outcomes[name] is Outcome.PENDING)
        return (
            f"waiting: strategy {wait.spec.strategy} has {have} of {enough} from {pending}; "
            f"the next deadline is in {max(0.0, wait.due_at - now):.1f} s, "
            f"then onTimeout {wait.spec.on_timeout} decides"
        )
    verb = "ended as" if wait.status is not Status.COMPLETED else ""
    text = f"{verb} {wait.status} after {wait.ending.at - wait.opened_at:.3f} s".strip()
    return f"{text}: {wait.ending.reason}"


def _event(wait: Wait, index: int, now: float) -> str:
    expected, mark = wait.spec.events[index], wait.marks[index]
    origin = f"{expected.source} {expected.label}" if expected.label else expected.source.value
    match mark.outcome:
        case Outcome.PENDING if wait.ending is None:
            left = wait.deadline_of(index) - now
            return f"not here yet (from {origin}); {max(0.0, left):.1f} s left"
        case Outcome.PENDING:
            return f"had not come from {origin} when the wait ended"
        case Outcome.TIMED_OUT:
            allowed = wait.deadline_of(index) - wait.opened_at
            return f"did not come from {origin} within {allowed:g} s"
        case _:
            after = mark.at - wait.opened_at
            return f"{mark.outcome} from {origin} after {after:.3f} s as {mark.event_id}"


def _near_miss(parked: ParkedEvent) -> NearMiss:
    clause = parked.clause
    because = parked.reason.value.replace("_", " ")
    if clause is not None:
        because += f": {clause.rule} expected {clause.expected!r}, got {clause.actual!r}"
    return NearMiss(
        event_id=parked.event_id,
        source=parked.source.value,
        label=parked.label,
        verdict=parked.verdict.value,
        reason=parked.reason.value,
        at=parked.at,
        sentence=because,
    )
