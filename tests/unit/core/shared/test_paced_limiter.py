"""The rate holds over every window, whoever comes when and however often the limit changes."""

import math
import sys
from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.shared.rate_limit import MINUTE, RESERVE, SECOND, SPREAD, PacedLimiter

LIMITS = st.one_of(st.integers(1, 5), st.integers(50, 70), st.integers(1, 3_000))


def start(pace: PacedLimiter, now: float) -> float:
    """When somebody starts who comes now and waits as long as it is told."""
    waited = pace.wait(now)
    while waited:
        later = now + waited
        now = later if later > now else math.nextafter(now, math.inf)
        waited = pace.wait(now)
    pace.take(now)
    return now


def starts_of(pace: PacedLimiter, arrivals: list[float]) -> list[float]:
    starts: list[float] = []
    for arrival in sorted(arrivals):
        starts.append(start(pace, max([arrival, *starts[-1:]])))
    return starts


def most_in(starts: list[float], window: float) -> int:
    """The most starts of any window that ends before its length is over."""
    return max((bisect_left(starts, one + window) - i for i, one in enumerate(starts)), default=0)


def check(starts: list[float], limit: int) -> None:
    assert most_in(starts, MINUTE) <= limit
    if limit >= SPREAD:
        assert most_in(starts, 1.0) <= math.ceil(limit / 60)


def steady(pace: PacedLimiter, seconds: float, begin: float = 1000.0) -> list[float]:
    """The starts if there is always somebody waiting."""
    starts = [start(pace, begin)]
    while starts[-1] < begin + seconds:
        starts.append(start(pace, starts[-1]))
    return starts[:-1]


# The laws.


@given(LIMITS, st.lists(st.tuples(st.floats(0, 200), st.integers(1, 80)), max_size=12))
@settings(max_examples=40, deadline=None)
def test_no_window_has_more_starts_than_allowed(
    limit: int, crowds: list[tuple[float, int]]
) -> None:
    check(starts_of(PacedLimiter(limit), [at for at, many in crowds for _ in range(many)]), limit)


@given(LIMITS, st.lists(st.floats(0, 3), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_nor_if_those_who_start_are_late(limit: int, lateness: list[float]) -> None:
    """A busy process wakes when it can, and starts all that may start by then."""
    pace, now, starts = PacedLimiter(limit), 50.0, list[float]()
    for late in lateness * 10:
        now += pace.wait(now) + late
        while not pace.wait(now) and len(starts) < 2_000:
            pace.take(now)
            starts.append(now)
    check(starts, limit)


@pytest.mark.parametrize("limit", [1, 7, 59, 60, 61, 90, 119, 120, 600, 1_000, 6_060, 12_000])
def test_steady_demand_gets_all_but_two_hundredths(limit: int) -> None:
    minutes = 4 if limit < 6_000 else 2
    starts = steady(PacedLimiter(limit), minutes * MINUTE)
    assert len(starts) >= 0.98 * limit * minutes
    check(starts, limit)


@pytest.mark.parametrize("limit", [60, 600, 12_000])
def test_steady_demand_gets_it_from_a_process_that_looks_only_now_and_then(limit: int) -> None:
    """It wakes every 10 ms, or with few starts 5 ms late, and starts what it may by then."""
    pace, now, starts = PacedLimiter(limit), 0.0, list[float]()
    while now < 2 * MINUTE:
        while not pace.wait(now):
            pace.take(now)
            starts.append(now)
        now += 0.01 if limit > 600 else pace.wait(now) + 0.005
    assert len(starts) >= 0.98 * 2 * limit
    check(starts, limit)


def test_who_stood_still_catches_up_and_is_even_again_soon() -> None:
    pace = PacedLimiter(12_000)
    starts = steady(pace, 5)
    resumed = starts[-1] + 0.1
    starts += [start(pace, resumed)]
    while starts[-1] < resumed + 60:
        starts.append(start(pace, starts[-1]))
    check(starts, 12_000)
    assert sum(one == resumed for one in starts) == pytest.approx(0.1 / 0.00505, abs=3)
    late = [one for one in starts if one > resumed + 30]
    assert max(gaps_of(late)) < 0.006


@pytest.mark.parametrize("limit", [60, 600, 12_000])
def test_starts_are_evenly_spaced_from_the_first_on(limit: int) -> None:
    gaps = gaps_of(steady(PacedLimiter(limit), 10))
    assert max(gaps) < 60 / limit * (RESERVE + 0.001)
    assert min(gaps) > 60 / limit * (RESERVE - 0.001)


def gaps_of(starts: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(starts)]


# Changes.


_changes = st.lists(
    st.tuples(st.one_of(st.none(), LIMITS), st.floats(0, 40), st.integers(1, 40)), max_size=12
)


@given(st.one_of(st.none(), LIMITS), _changes)
@settings(max_examples=60, deadline=None)
def test_at_each_start_the_limit_of_that_moment_holds_for_the_minute_before_it(
    first: int | None, changes: list[tuple[int | None, float, int]]
) -> None:
    pace, now, starts = PacedLimiter(first), 0.0, list[float]()
    for limit, later, many in changes:
        now += later
        for _ in range(many):
            now = start(pace, now)
            starts.append(now)
            if pace.limit is not None:
                assert sum(one > now - MINUTE for one in starts) <= pace.limit
                if pace.limit >= SPREAD:
                    share = math.ceil(pace.limit / 60)
                    assert sum(one > now - 1 for one in starts) <= share
        pace.resize(limit)


def test_without_a_limit_nobody_waits() -> None:
    pace = PacedLimiter(None)
    assert starts_of(pace, [5.0] * 1_000) == [5.0] * 1_000
    assert pace.wait(5.0) == 0


def test_a_limit_where_there_was_none_counts_what_was_started_without() -> None:
    pace = PacedLimiter(None)
    starts_of(pace, [10.0, 10.1, 30.0])
    pace.resize(2)
    assert pace.wait(30.0) == 40.25, "the quarter of the first two is then a minute old"


def test_a_smaller_limit_counts_what_was_used_of_the_larger() -> None:
    pace = PacedLimiter(3)
    starts_of(pace, [0.0, 10.0, 20.0])
    pace.resize(1)
    assert pace.wait(30.0) == 50.25


def test_a_larger_limit_counts_what_was_used_of_the_smaller() -> None:
    pace = PacedLimiter(1)
    pace.take(0.0)
    pace.resize(2)
    assert starts_of(pace, [1.0, 2.0]) == [1.0, 60.25]


def test_a_change_to_a_spread_limit_waits_for_the_second_of_the_last_start() -> None:
    pace = PacedLimiter(None)
    pace.take(100.0)
    pace.resize(6_000)
    assert pace.wait(100.5) == pytest.approx(SECOND - 0.5)
    assert pace.wait(102.0) == 0


def test_no_change_is_none() -> None:
    pace = PacedLimiter(6_000)
    starts_of(pace, [100.0] * 10)
    before = pace.wait(100.0)
    pace.resize(6_000)
    assert pace.wait(100.0) == before


def test_a_limit_that_is_taken_away_holds_nobody() -> None:
    pace = PacedLimiter(1)
    pace.take(0.0)
    pace.resize(None)
    assert pace.wait(0.0) == 0


# What it costs.


def test_what_was_not_used_is_not_saved_up() -> None:
    pace = PacedLimiter(1)
    assert starts_of(pace, [0.0, 500.0, 500.0]) == [0.0, 500.0, 560.25]


@pytest.mark.parametrize("limit", [None, 1, 600_000])
def test_memory_is_bounded(limit: int | None) -> None:
    pace = PacedLimiter(limit)
    for step in range(100_000):
        pace.take(step / 500)
    kept = sys.getsizeof(pace._counts) + sys.getsizeof(pace._recent)
    assert len(pace._counts) <= 60 * 4 + 1
    assert len(pace._recent) <= 10_000
    assert kept < 200_000
