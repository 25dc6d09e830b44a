"""Decides whether a wait has ended, by its strategy, its outcomes and its timeout policy."""

from collections.abc import Sequence
from enum import StrEnum
from typing import assert_never

import msgspec

from core.waits.spec import Strategy, TimeoutPolicy, WaitSpec


class Outcome(StrEnum):
    """The state of one expected event."""

    PENDING = "pending"
    RECEIVED = "received"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    REJECTED = "rejected"


class StrategyResult(StrEnum):
    """What the outcomes so far mean for the wait."""

    WAIT = "wait"
    COMPLETE = "complete"
    IMPOSSIBLE = "impossible"


class Status(StrEnum):
    """The status of a wait; every status but WAITING is final."""

    WAITING = "waiting"
    COMPLETED = "completed"
    TIMEOUT = "timeout"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Ending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How a wait ended and why; `seq` is its number in the correlation's log."""

    status: Status
    reason: str
    at: float = 0.0
    seq: int = 0
    timed_out: bool = False
    partial: bool = False
    missing: tuple[str, ...] = ()
    warning: str | None = None
    turn_id: str = ""
    """The request that ended the wait, if one did."""


_BROKEN = frozenset({Outcome.FAILED, Outcome.REJECTED})
_SATISFIED = {strategy: f"strategy {strategy} is satisfied" for strategy in Strategy}
_GATHERED = "every resource has answered, failed or timed out"
_LOST = {
    Outcome.TIMED_OUT: "did not come in time",
    Outcome.FAILED: "failed",
    Outcome.REJECTED: "rejected the request",
    Outcome.PENDING: "had not come",
}


def evaluate(spec: WaitSpec, outcomes: Sequence[Outcome]) -> StrategyResult:
    """Apply the strategy to the outcomes, which are in the order of `spec.events`."""
    places, enough = spec.needed_slots
    pending = received = 0
    for place in places:
        outcome = outcomes[place]
        if outcome is Outcome.RECEIVED:
            received += 1
        elif outcome is Outcome.PENDING:
            pending += 1
    if spec.strategy is Strategy.SETTLED:
        return StrategyResult.WAIT if pending else StrategyResult.COMPLETE
    if received >= enough:
        return StrategyResult.COMPLETE
    return StrategyResult.WAIT if received + pending >= enough else StrategyResult.IMPOSSIBLE


def decide_ending(spec: WaitSpec, outcomes: Sequence[Outcome]) -> Ending | None:
    """Return the ending for these outcomes, or None while the wait continues."""
    match evaluate(spec, outcomes):
        case StrategyResult.WAIT:
            return None
        case StrategyResult.COMPLETE:
            return _complete(spec, outcomes)
        case StrategyResult.IMPOSSIBLE:
            return None if _undecided(spec, outcomes) else _apply_policy(spec, outcomes)
        case other:
            assert_never(other)


def _complete(spec: WaitSpec, outcomes: Sequence[Outcome]) -> Ending:
    if not spec.events:
        return Ending(status=Status.COMPLETED, reason="nothing to wait for")
    reason = _GATHERED if spec.gather else _SATISFIED[spec.strategy]
    if spec.strategy is not Strategy.SETTLED:
        return Ending(status=Status.COMPLETED, reason=reason)
    missing = _missing(spec, outcomes)
    return Ending(
        status=Status.COMPLETED,
        reason=reason,
        timed_out=Outcome.TIMED_OUT in outcomes,
        partial=bool(missing),
        missing=missing,
    )


def _undecided(spec: WaitSpec, outcomes: Sequence[Outcome]) -> bool:
    """Return whether pending events can still change what the timeout policy decides.

    `all` with `continue` needs the required events only. It keeps waiting for them after an
    optional event is lost, so that the result does not depend on the order of arrival.
    """
    if (spec.strategy, spec.on_timeout) != (Strategy.ALL, TimeoutPolicy.CONTINUE):
        return False
    required = _required(spec, outcomes)
    return Outcome.PENDING in required and set(required) <= {Outcome.PENDING, Outcome.RECEIVED}


def _apply_policy(spec: WaitSpec, outcomes: Sequence[Outcome]) -> Ending:
    missing = _missing(spec, outcomes)
    lost = _lost(spec, outcomes)
    timed_out = Outcome.TIMED_OUT in outcomes
    if not _may_continue(spec, outcomes):
        broken = any(outcomes[place] in _BROKEN for place in spec.needed_slots[0])
        return Ending(
            status=Status.FAILED if broken else Status.TIMEOUT,
            reason=f"{lost}; {_refusal(spec, outcomes)}",
            timed_out=timed_out,
            missing=missing,
        )
    lenient = spec.on_timeout is TimeoutPolicy.CONTINUE_WITH_PARTIAL
    return Ending(
        status=Status.COMPLETED,
        reason=f"{lost}; onTimeout {spec.on_timeout} goes on without",
        timed_out=timed_out,
        partial=bool(missing),
        missing=missing,
        warning=f"continued without {', '.join(missing)}" if lenient else None,
    )


def _lost(spec: WaitSpec, outcomes: Sequence[Outcome]) -> str:
    """Say what became of each event that was not received."""
    names: dict[Outcome, list[str]] = {}
    for name, outcome in zip(spec.names, outcomes, strict=True):
        names.setdefault(outcome, []).append(name)
    lost = [f"{', '.join(names[one])} {verb}" for one, verb in _LOST.items() if one in names]
    return "; ".join(lost)


def _refusal(spec: WaitSpec, outcomes: Sequence[Outcome]) -> str:
    """Say why the timeout policy does not complete the wait."""
    places, enough = spec.needed_slots
    why = f"strategy {spec.strategy} needs {enough} of {len(places)}"
    if spec.on_timeout is TimeoutPolicy.FAIL:
        return f"{why}, so onTimeout fail ends the wait"
    if spec.strategy is Strategy.ALL:
        missing = _missing(spec, outcomes)
        required = [event.name for event in spec.events if event.required]
        lost = [name for name in required if name in missing]
        why = f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'} required"
    return f"{why}, so onTimeout continue could not go on"


def _may_continue(spec: WaitSpec, outcomes: Sequence[Outcome]) -> bool:
    """Return whether the policy completes a wait whose strategy can no longer be satisfied."""
    if spec.on_timeout is not TimeoutPolicy.CONTINUE:
        return spec.on_timeout is TimeoutPolicy.CONTINUE_WITH_PARTIAL
    match spec.strategy:
        case Strategy.ALL:
            return all(outcome is Outcome.RECEIVED for outcome in _required(spec, outcomes))
        case Strategy.ANY | Strategy.REQUIRED_ONLY:
            return True
        case _:  # custom and quorum are unmet by definition; settled never gets here
            return False


def _required(spec: WaitSpec, outcomes: Sequence[Outcome]) -> list[Outcome]:
    pairs = zip(spec.events, outcomes, strict=True)
    return [outcome for event, outcome in pairs if event.required]


def _missing(spec: WaitSpec, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    pairs = zip(spec.names, outcomes, strict=True)
    return tuple(name for name, outcome in pairs if outcome is not Outcome.RECEIVED)
