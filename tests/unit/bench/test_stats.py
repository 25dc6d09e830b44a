import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats import percentile, poisson_schedule, slope, weighted_percentile

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)
SHARES = st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0])


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7.0], 0.99, 7.0),
        ([1.0, 2.0], 0.5, 1.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([float(n) for n in range(1, 101)], 0.99, 99.0),
        ([float(n) for n in range(1, 101)], 1.0, 100.0),
    ],
)
def test_percentiles_by_nearest_rank(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


@given(VALUES, SHARES)
def test_at_least_that_share_is_not_above_a_percentile(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


@given(VALUES, SHARES)
def test_a_weight_stands_for_repetition(values: list[float], share: float) -> None:
    weighted = [(value, 3) for value in values]
    assert weighted_percentile(weighted, share) == percentile(values * 3, share)


def test_a_schedule_is_fixed_by_its_seed_and_keeps_its_rate() -> None:
    schedule = poisson_schedule(rate=200.0, count=10_000, seed=1)
    assert schedule == poisson_schedule(rate=200.0, count=10_000, seed=1)
    assert schedule != poisson_schedule(rate=200.0, count=10_000, seed=2)
    assert schedule == sorted(schedule)
    assert schedule[-1] == pytest.approx(50.0, rel=0.05)


def test_a_slope_is_what_each_unit_adds() -> None:
    assert slope([(0.0, 5.0), (1.0, 8.0), (2.0, 11.0)]) == pytest.approx(3.0)


@pytest.mark.parametrize("points", [[], [(1.0, 2.0)], [(1.0, 2.0), (1.0, 9.0)]])
def test_there_is_no_slope_without_two_moments(points: list[tuple[float, float]]) -> None:
    assert slope(points) == 0.0
