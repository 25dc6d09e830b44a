"""Explains in words why a wait is not over, or why it ended as it did."""

from collections.abc import Sequence

import msgspec

from core.waits.spec import Strategy, TimeoutPolicy
from core.waits.state import ParkedEvent, Wait
from core.waits.strategy import Outcome, Status

_AT_THE_END = {
    TimeoutPolicy.FAIL: "ends it",
    TimeoutPolicy.CONTINUE: "decides",
    TimeoutPolicy.CONTINUE_WITH_PARTIAL: "goes on with what is here",
}


class Explanation(msgspec.Struct, frozen=True):
    """One sentence for the wait and one for each of its events."""

    summary: str
    events: dict[str, str]
    near_misses: Sequence[ParkedEvent]
    """Events for its ids that did not count."""


def explain(wait: Wait, parked: Sequence[ParkedEvent], now: float) -> Explanation:
    """Explain the state of a wait; `parked` are the events for its ids that did not count."""
    return Explanation(
        summary=_summary(wait, now),
        events={
            event.name: _event(wait, index, now) for index, event in enumerate(wait.spec.events)
        },
        near_misses=parked,
    )


def _summary(wait: Wait, now: float) -> str:
    if wait.ending is None:
        return f"waiting: {_progress(wait)} (strategy {wait.spec.strategy}). {_rest(wait, now)}"
    verb = "" if wait.status is Status.COMPLETED else "ended as "
    return (
        f"{verb}{wait.status} after {wait.ending.at - wait.opened_at:.3f} s: {wait.ending.reason}"
    )


def _progress(wait: Wait) -> str:
    names, enough = wait.spec.needed_names, wait.spec.needed_slots[1]
    outcomes = wait.outcomes
    pending = [name for name in names if outcomes[name] is Outcome.PENDING]
    received = sum(outcomes[name] is Outcome.RECEIVED for name in names)
    missing = f"{', '.join(pending)} {'is' if len(pending) == 1 else 'are'} missing"
    if wait.spec.strategy is Strategy.SETTLED:
        return f"{len(names) - len(pending)} of {len(names)} have answered or failed, {missing}"
    if enough == len(names):
        return f"{received} of {enough} events are here, {missing}"
    return f"{received} of the {enough} needed are here, any of {', '.join(pending)} counts"


def _rest(wait: Wait, now: float) -> str:
    left = f"{max(0.0, wait.due_at - now):.0f} s are left"
    policy = f"onTimeout {wait.spec.on_timeout}"
    if wait.due_at < wait.expires_at:
        return f"{left} until the next deadline; then {policy} decides."
    return f"{left}; then {policy} {_AT_THE_END[wait.spec.on_timeout]}."


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
