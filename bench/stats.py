"""The little arithmetic that benchmarks need."""

import random
import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that at least `share` of all are not above (nearest rank)."""
    ordered = sorted(values)
    rank = max(1, -int(-share * len(ordered) // 1))
    return ordered[rank - 1]


def poisson_schedule(rate: float, count: int, seed: int) -> list[float]:
    """When `count` independent callers come, `rate` a second on average: fixed in advance."""
    chance = random.Random(seed)
    at, schedule = 0.0, []
    for _ in range(count):
        at += chance.expovariate(rate)
        schedule.append(at)
    return schedule


def slope(points: Sequence[tuple[float, float]]) -> float:
    """How much y grows with each unit of x, by least squares; 0 where there is no telling."""
    if len({x for x, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def weighted_percentile(samples: Sequence[tuple[float, int]], share: float) -> float:
    """The same as `percentile` for values that stand for several."""
    left = share * sum(weight for _, weight in samples)
    for value, weight in sorted(samples):
        left -= weight
        if left <= 0:
            return value
    return max(value for value, _ in samples)
