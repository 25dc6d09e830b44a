"""Counters of a shard about gathers: how they ended, and how each resource answered."""

from collections.abc import Sequence
from typing import Any

from actors.waits.turn import Turn
from core.gathers.gather import state_of_outcome, summarize
from core.shared.call_outcome import CallState
from core.shared.json_path import document_of
from core.waits.messages import Offer, OfferReply, Reply, Verdict
from core.waits.spec import ExpectedEvent
from core.waits.state import EventState, Wait
from core.waits.strategy import Outcome, Status
from telemetry.actor_metrics import ActorMetrics, Stat

# Further names are counted together, and so are all names that came with a request, because their
# number is unlimited.
MAX_NAMES = 1_000
OTHERS = "(others)"

STATES = (
    CallState.OK,
    CallState.REJECTED,
    CallState.TIMEOUT,
    CallState.CONNECTION_CLOSED,
    CallState.ERROR,
)
_ANSWERS = frozenset({CallState.OK, CallState.REJECTED})


GATHER_METRICS = ActorMetrics(
    kind="shard",
    labels=("shard",),
    counters=(
        Stat(
            "gathers_ended",
            "Gathers that ended: full, partial, empty or cancelled.",
            "gathers.ended",
            label="completeness",
        ),
        Stat("gather_late_callbacks", "Callbacks that came after the deadline.", "gathers.late"),
    ),
)


class GatherCounters:
    """Counters since this process started."""

    def __init__(self) -> None:
        self._ended: dict[str, int] = {}
        self._late = 0
        self._resources: dict[tuple[int, str], dict[str, float]] = {}

    def stored(self, before: Wait | None, after: Wait, turns: list[tuple[Turn, Reply]]) -> None:
        """Count what a committed change means for its gather."""
        self._late += sum(isinstance(r, OfferReply) and r.verdict is Verdict.LATE for _, r in turns)
        old = before.marks if before is not None else (None,) * len(after.marks)
        for expected, was, mark in zip(after.spec.events, old, after.marks, strict=True):
            if mark.outcome is Outcome.PENDING or (was and was.outcome is mark.outcome):
                continue
            state = _state_of(expected, mark, turns)
            counts = self._counts(after.address.tenant, expected)
            counts[state] += 1
            if state in _ANSWERS:  # other states have no response time
                counts["seconds"] += mark.at - after.opened_at
        if after.ending is not None and (before is None or before.ending is None):
            how = (
                "cancelled"
                if after.status is Status.CANCELLED
                else summarize(after).completeness.value
            )
            self._ended[how] = self._ended.get(how, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        return {
            "ended": dict(self._ended),
            "late": self._late,
            "resources": [
                {"tenant": tenant, "name": name, **counts}
                for (tenant, name), counts in self._resources.items()
            ],
        }

    def _counts(self, tenant: int, expected: ExpectedEvent) -> dict[str, float]:
        key = (tenant, OTHERS if expected.inline else expected.name)
        if key not in self._resources and len(self._resources) >= MAX_NAMES:
            key = (tenant, OTHERS)
        return self._resources.setdefault(key, dict.fromkeys((*STATES, "seconds"), 0))


def _state_of(
    expected: ExpectedEvent, mark: EventState, turns: Sequence[tuple[Turn, Reply]]
) -> CallState:
    """Return the state of a call; for a failure, by the message, because marks do not tell."""
    document = None
    if mark.outcome is Outcome.FAILED:
        came = (t.message for t, r in turns if isinstance(r, OfferReply) and r.seq == mark.seq)
        offer = next((message for message in came if isinstance(message, Offer)), None)
        document = document_of(offer.payload) if offer is not None else None
    return state_of_outcome(mark.outcome, document)
