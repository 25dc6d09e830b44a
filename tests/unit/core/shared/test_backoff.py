import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.backoff import backoff


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 3.0), (1, 6.0), (2, 12.0), (7, 384.0), (8, 600.0), (10**9, 600.0)]
)
def test_it_doubles_up_to_the_cap(attempt: int, seconds: float) -> None:
    assert backoff(attempt, base=3.0, cap=600.0, jitter=1.0) == seconds
    assert backoff(attempt, base=3.0, cap=600.0, jitter=0.0) == seconds / 2


@given(
    st.integers(0, 10_000),
    st.floats(0.001, 100),
    st.floats(0.001, 10_000),
    st.floats(0, 1, exclude_max=True),
)
def test_it_stays_within_its_cap_and_never_hammers(
    attempt: int, base: float, cap: float, jitter: float
) -> None:
    pause = backoff(attempt, base=base, cap=cap, jitter=jitter)
    assert min(base, cap) / 2 <= pause <= cap


@given(st.integers(0, 100), st.floats(0, 1))
def test_it_never_shrinks(attempt: int, jitter: float) -> None:
    first, second = (backoff(n, base=0.5, cap=60.0, jitter=jitter) for n in (attempt, attempt + 1))
    assert first <= second
