"""How well deliveries fare: what is healthy, what needs a look, what grows too fast."""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

MIN_SUCCESS_RATE = 0.9
"""Of deliveries that succeed: less is not healthy."""
FEW_WARNINGS, MANY_WARNINGS = 5, 20
LARGE_BACKLOG = 1_000
FAST_GROWTH = 100
GROWTH_CHECKS = 3


class Condition(StrEnum):
    """All that is in one word."""

    HEALTHY = "HEALTHY"
    WARNING = "WARNING"
    DEGRADED = "DEGRADED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHealth:
    """What is known of a pool: whether it answers, and how its last half hour went."""

    code: str
    is_up: bool = True
    completed: int = 0
    failed: int = 0
    open_breakers: int = 0

    @property
    def rate(self) -> float:
        """The share of deliveries that succeeded; all of none."""
        return success_rate(self.completed, self.failed)

    @property
    def is_healthy(self) -> bool:
        """Whether nobody needs to look at it."""
        return self.is_up and self.rate >= MIN_SUCCESS_RATE


def success_rate(completed: int, failed: int) -> float:
    """The share that succeeded; all of none."""
    total = completed + failed
    return completed / total if total else 1.0


def assess_health(pools: list[PoolHealth], warnings: int) -> tuple[Condition, str | None]:
    """How it is, and why it is no better."""
    for pool in pools:
        if not pool.is_up:
            return Condition.DEGRADED, f"pool {pool.code} does not answer"
    for pool in pools:
        if not pool.is_healthy:
            reason = f"{pool.rate:.0%} of the deliveries of pool {pool.code} succeeded"
            return Condition.DEGRADED, f"{reason} in the last 30 minutes"
    if warnings > MANY_WARNINGS:
        return Condition.DEGRADED, f"{warnings} warnings in the last 30 minutes"
    if warnings > FEW_WARNINGS:
        return Condition.WARNING, f"{warnings} warnings in the last 30 minutes"
    opened = sum(pool.open_breakers for pool in pools)
    if opened:
        return Condition.WARNING, f"{opened} targets are left alone"
    return Condition.HEALTHY, None


class BacklogTrend:
    """Follows how many jobs wait in one place."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque(maxlen=GROWTH_CHECKS + 1)

    def observe(self, size: int) -> tuple[bool, int | None]:
        """Whether too many wait; and by how much they grew, if it was at each of the last looks."""
        self._sizes.append(size)
        sizes = list(self._sizes)
        grows = all(later > earlier for earlier, later in pairwise(sizes))
        steady = len(sizes) > GROWTH_CHECKS and grows
        grown = sizes[-1] - sizes[0]
        return size > LARGE_BACKLOG, grown if steady and grown > FAST_GROWTH else None
