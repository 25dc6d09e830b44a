"""The health of deliveries: success rates, warnings and the growth of backlogs."""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

MIN_SUCCESS_RATE = 0.9
"""A pool with a lower share of successful deliveries is not healthy."""
FEW_WARNINGS, MANY_WARNINGS = 5, 20
LARGE_BACKLOG = 1_000
FAST_GROWTH = 100
GROWTH_CHECKS = 3


class Condition(StrEnum):
    """The health of all pools together."""

    HEALTHY = "HEALTHY"
    WARNING = "WARNING"
    DEGRADED = "DEGRADED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHealth:
    """Whether a pool responds, and its deliveries of the last 30 minutes."""

    code: str
    is_up: bool = True
    completed: int = 0
    failed: int = 0
    open_breakers: int = 0

    @property
    def rate(self) -> float:
        return success_rate(self.completed, self.failed)

    @property
    def is_healthy(self) -> bool:
        return self.is_up and self.rate >= MIN_SUCCESS_RATE


def success_rate(completed: int, failed: int) -> float:
    """Return the share of successful deliveries; 1 without deliveries."""
    total = completed + failed
    return completed / total if total else 1.0


def assess_health(pools: list[PoolHealth], warnings: int) -> tuple[Condition, str | None]:
    """Return the overall condition, and its reason unless all is healthy."""
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
    """Observes the size of one backlog."""

    def __init__(self) -> None:
        self._sizes: deque[int] = deque(maxlen=GROWTH_CHECKS + 1)

    def observe(self, size: int) -> tuple[bool, int | None]:
        """Return whether the backlog is too large, and its growth if it grew fast and steadily."""
        self._sizes.append(size)
        sizes = list(self._sizes)
        grows = all(later > earlier for earlier, later in pairwise(sizes))
        steady = len(sizes) > GROWTH_CHECKS and grows
        grown = sizes[-1] - sizes[0]
        return size > LARGE_BACKLOG, grown if steady and grown > FAST_GROWTH else None
