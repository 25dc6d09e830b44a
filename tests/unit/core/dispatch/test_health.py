"""What is healthy, and what grows too fast."""

import pytest

from core.dispatch.health import BacklogTrend, Condition, PoolHealth, assess_health, success_rate


def pool(**fields: object) -> PoolHealth:
    return PoolHealth(code="default", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pools", "warnings", "condition", "reason"),
    [
        ([], 0, Condition.HEALTHY, None),
        ([pool()], 5, Condition.HEALTHY, None),
        ([pool(completed=90, failed=10)], 0, Condition.HEALTHY, None),
        ([pool(completed=89, failed=11)], 0, Condition.DEGRADED, "89% of the deliveries"),
        ([pool(), pool(is_up=False)], 0, Condition.DEGRADED, "does not answer"),
        ([pool()], 6, Condition.WARNING, "6 warnings"),
        ([pool()], 20, Condition.WARNING, "20 warnings"),
        ([pool()], 21, Condition.DEGRADED, "21 warnings"),
        ([pool(open_breakers=2)], 0, Condition.WARNING, "2 targets"),
    ],
)
def test_the_worst_decides_and_is_named(
    pools: list[PoolHealth], warnings: int, condition: Condition, reason: str | None
) -> None:
    found, told = assess_health(pools, warnings)
    assert found is condition
    assert (told is None) if reason is None else (told is not None and reason in told)


def test_of_no_deliveries_all_succeeded() -> None:
    assert success_rate(0, 0) == 1.0
    assert success_rate(1, 3) == 0.25


@pytest.mark.parametrize(
    ("sizes", "too_many", "grown"),
    [
        ([1_000], False, None),
        ([1_001], True, None),
        ([0, 50, 90, 101], False, 101),
        ([0, 50, 90, 100], False, None),
        ([0, 500, 400, 600], False, None),
        ([0, 1, 2], False, None),
        ([9_000, 0, 50, 90, 101], False, 101),
    ],
)
def test_a_backlog_is_large_or_grows_at_each_look(
    sizes: list[int], too_many: bool, grown: int | None
) -> None:
    backlog = BacklogTrend()
    for size in sizes:
        found = backlog.observe(size)
    assert found == (too_many, grown)
