from hypothesis import given
from hypothesis import strategies as st

from core.shared.rate_limit import SlidingWindow

WINDOW = 60.0
# Sixty-fourths of a second are exact, so that what is compared is the rule and not its rounding.
_moments = st.integers(0, 64 * 200).map(lambda n: n / 64)
_limits = st.integers(1, 5)


def starts_of(allowance: SlidingWindow, arrivals: list[float]) -> list[float]:
    """When each would start that comes at its time and waits as long as it is told."""
    starts: list[float] = []
    for arrival in sorted(arrivals):
        now = max([arrival, *starts[-1:]])
        now += allowance.wait(now)
        assert allowance.wait(now) == 0
        allowance.take(now)
        starts.append(now)
    return starts


def most_in_a_window(starts: list[float]) -> int:
    return max(
        (sum(begin <= start < begin + WINDOW for start in starts) for begin in starts), default=0
    )


def test_so_many_start_at_once_and_the_next_waits_for_the_first_to_be_old() -> None:
    allowance = SlidingWindow(2, WINDOW)
    assert starts_of(allowance, [0.0, 10.0, 11.0, 12.0]) == [0.0, 10.0, 60.0, 70.0]


def test_what_was_not_used_is_not_saved_up() -> None:
    allowance = SlidingWindow(1, WINDOW)
    assert starts_of(allowance, [0.0, 500.0, 500.0]) == [0.0, 500.0, 560.0]


@given(_limits, st.lists(_moments, max_size=30))
def test_no_window_has_more_starts_than_allowed(limit: int, arrivals: list[float]) -> None:
    starts = starts_of(SlidingWindow(limit, WINDOW), arrivals)
    assert most_in_a_window(starts) <= limit


@given(_limits, st.lists(_moments, max_size=30))
def test_nobody_waits_longer_than_needed(limit: int, arrivals: list[float]) -> None:
    """Each starts when it comes, or at the very moment at which the start `limit` before is old."""
    starts = starts_of(SlidingWindow(limit, WINDOW), arrivals)
    for index, (arrival, start) in enumerate(zip(sorted(arrivals), starts, strict=True)):
        earliest = max([arrival, *starts[max(index - 1, 0) : index]])
        if index >= limit:
            earliest = max(earliest, starts[index - limit] + WINDOW)
        assert start == earliest


def test_a_smaller_limit_counts_what_was_used_before() -> None:
    allowance = SlidingWindow(3, WINDOW)
    starts_of(allowance, [0.0, 10.0, 20.0])
    allowance.resize(1)
    assert allowance.limit == 1
    assert allowance.wait(30.0) == 50.0


def test_a_larger_limit_counts_what_was_used_before() -> None:
    allowance = SlidingWindow(1, WINDOW)
    allowance.take(0.0)
    allowance.resize(2)
    assert starts_of(allowance, [1.0, 2.0]) == [1.0, 60.0]


def test_a_limit_that_was_smaller_for_a_while_has_forgotten_nothing() -> None:
    allowance = SlidingWindow(3, WINDOW)
    starts_of(allowance, [0.0, 1.0, 2.0])
    allowance.resize(1)
    allowance.resize(3)
    assert allowance.wait(3.0) == 57.0


@given(st.lists(st.tuples(_limits, _moments, st.booleans()), max_size=30))
def test_no_window_has_more_than_the_limit_of_its_last_start_however_often_it_changes(
    steps: list[tuple[int, float, bool]],
) -> None:
    allowance = SlidingWindow(1, WINDOW)
    starts: list[float] = []
    for limit, arrival, stays in sorted(steps, key=lambda step: step[1]):
        allowance.resize(limit)
        now = max([arrival, *starts[-1:]])
        now += allowance.wait(now)
        if stays:  # the others lose patience
            allowance.take(now)
            starts.append(now)
            assert sum(start > now - WINDOW for start in starts) <= limit
