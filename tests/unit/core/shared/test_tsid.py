"""Ids grow with time, differ between makers, and say when they were made."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.shared.tsid import LENGTH, MAKERS, PATTERN, IdMaker, first_at, is_tsid, made_at

NOW = 1_800_000_000.25
EPOCH = 1_577_836_800.0
A_MILLISECOND_HOLDS = 4096


class Clock:
    """Time that stands until it is moved."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_an_id_is_thirteen_characters_of_base32() -> None:
    made = IdMaker(3, Clock())()
    assert len(made) == LENGTH
    assert re.match(PATTERN, made)


def test_an_id_says_when_it_was_made() -> None:
    assert made_at(IdMaker(1023, Clock())()) == NOW
    assert made_at("0000000000000") == EPOCH


def test_ids_of_one_moment_grow() -> None:
    make = IdMaker(0, Clock())
    made = [make() for _ in range(1000)]
    assert made == sorted(set(made))
    assert {made_at(one) for one in made} == {NOW}


def test_ids_of_a_later_moment_are_greater_than_all_before() -> None:
    clock = Clock()
    make = IdMaker(1023, clock)
    before = [make() for _ in range(10)]
    clock.now += 0.001
    assert IdMaker(0, clock)() > max(before)
    assert make() > max(before)


def test_more_than_a_millisecond_holds_borrow_from_the_next() -> None:
    clock = Clock()
    make = IdMaker(5, clock)
    made = [make() for _ in range(2 * A_MILLISECOND_HOLDS + 1)]
    assert all(one < other for one, other in pairwise(made))
    assert made_at(made[A_MILLISECOND_HOLDS - 1]) == NOW
    assert made_at(made[A_MILLISECOND_HOLDS]) == pytest.approx(NOW + 0.001)
    assert made_at(made[-1]) == pytest.approx(NOW + 0.002)
    clock.now += 0.001  # what was borrowed stays used
    assert make() > made[-1]


def test_a_clock_that_goes_back_changes_nothing() -> None:
    clock = Clock()
    make = IdMaker(5, clock)
    before = make()
    clock.now -= 3600
    after = [make() for _ in range(100)]
    assert before < after[0]
    assert after == sorted(set(after))
    clock.now = NOW + 1
    assert make() > after[-1]


def test_a_clock_before_the_first_moment_still_makes_ids() -> None:
    make = IdMaker(5, Clock(0.0))
    made = [make() for _ in range(3)]
    assert made == sorted(set(made))
    assert made_at(made[0]) == EPOCH


def test_no_two_makers_make_the_same() -> None:
    clock = Clock()
    makers = [IdMaker(number, clock) for number in range(MAKERS)]
    made = {make() for make in makers for _ in range(3)}
    assert len(made) == 3 * MAKERS


def test_numbers_of_makers_go_round() -> None:
    assert IdMaker(MAKERS + 7, Clock())() == IdMaker(7, Clock())()


@given(
    st.integers(0, MAKERS - 1),
    st.lists(st.floats(EPOCH, EPOCH + 130 * 365 * 86_400), min_size=2, max_size=20),
)
def test_whatever_the_clock_does_ids_grow(maker: int, times: list[float]) -> None:
    clock = Clock()
    make = IdMaker(maker, clock)
    made = []
    for clock.now in times:
        made.append(make())
    assert made == sorted(set(made))
    assert all(re.match(PATTERN, one) for one in made)


@given(st.floats(EPOCH, EPOCH + 130 * 365 * 86_400))
def test_the_first_id_of_a_moment_divides_before_from_after(now: float) -> None:
    made = IdMaker(0, Clock(now))()
    assert first_at(now) <= made < first_at(now + 0.002)
    assert made_at(first_at(now)) == pytest.approx(now, abs=0.001)


def test_the_first_id_of_a_moment_out_of_bounds_is_the_least_or_the_greatest() -> None:
    assert first_at(0) == first_at(-1.0) == "0" * LENGTH
    assert first_at(1e13) == "F" + "Z" * 12


def test_two_with_one_number_seldom_meet() -> None:
    """In each millisecond a counter begins anywhere in the lower half, and has the upper left."""
    clock = Clock()
    starts = iter([7, 2047])
    make = IdMaker(5, clock, lambda bits: next(starts) % (1 << bits))
    first = make()
    assert first != IdMaker(5, clock)()
    clock.now += 0.001
    made = [make() for _ in range(A_MILLISECOND_HOLDS // 2)]
    assert made == sorted({first, *made})[1:]
    assert len({made_at(one) for one in made}) == 1


def test_an_id_is_told_from_other_texts() -> None:
    made = IdMaker(0, Clock())()
    assert is_tsid(made)
    assert not any(
        is_tsid(text) for text in ("", made[1:], made + "0", f"Z{made[1:]}", f"{made}\n")
    )
