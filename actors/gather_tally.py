"""What a shard counts of gathers: how they ended, and how each resource answered."""

from typing import Any

from actors.turn import Turn
from core.gather import tally_of
from core.judgement import Outcome, Status
from core.messages import Judged, Reply, Verdict
from core.wait import Wait

# A name may come with a request, so there can be any number: the rest is counted as one.
MOST_NAMES = 1_000
OTHERS = "(others)"

_OUTCOMES = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.PENDING)


class GatherTally:
    """Counters since this process started."""

    def __init__(self) -> None:
        self._ended: dict[str, int] = {}
        self._late = 0
        self._resources: dict[tuple[int, str], dict[str, float]] = {}

    def stored(self, before: Wait | None, after: Wait, turns: list[tuple[Turn, Reply]]) -> None:
        """Count what a committed change means for its gather."""
        self._late += sum(isinstance(r, Judged) and r.verdict is Verdict.LATE for _, r in turns)
        old = before.marks if before is not None else (None,) * len(after.marks)
        for expected, was, mark in zip(after.spec.events, old, after.marks, strict=True):
            if mark.outcome is Outcome.PENDING or (was and was.outcome is mark.outcome):
                continue
            counts = self._counts(after.address.tenant, expected.name)
            counts[mark.outcome.value] += 1
            counts["seconds"] += mark.at - after.opened_at
        if after.ending is not None and (before is None or before.ending is None):
            how = (
                "cancelled"
                if after.status is Status.CANCELLED
                else tally_of(after).completeness.value
            )
            self._ended[how] = self._ended.get(how, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        """All numbers, as they are now."""
        return {
            "ended": dict(self._ended),
            "late": self._late,
            "resources": [
                {"tenant": tenant, "name": name, **counts}
                for (tenant, name), counts in self._resources.items()
            ],
        }

    def _counts(self, tenant: int, name: str) -> dict[str, float]:
        key = (tenant, name)
        if key not in self._resources and len(self._resources) >= MOST_NAMES:
            key = (tenant, OTHERS)
        return self._resources.setdefault(key, dict.fromkeys((*_OUTCOMES, "seconds"), 0))
