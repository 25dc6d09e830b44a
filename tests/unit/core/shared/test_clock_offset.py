"""Which readings of a remote clock count."""

import pytest

from core.shared.clock_offset import KEEP_SECONDS, ClockOffset

AHEAD = 1_000.0


def read(clock: ClockOffset, at: float, *, there: float, back: float, ahead: float = AHEAD) -> bool:
    """Read a remote clock that is `ahead`, on a way of `there` and `back` seconds."""
    return clock.add(at, at + there + back, at + there + ahead)


def test_until_the_first_reading_it_is_a_guess() -> None:
    clock = ClockOffset(3.0)
    assert clock.value == 3.0
    assert not clock.measured


def test_the_first_reading_counts_however_slow() -> None:
    clock = ClockOffset(0.0)
    assert not read(clock, 0.0, there=8.0, back=0.0)
    assert clock.measured
    assert clock.value == AHEAD + 4.0


def test_a_quick_reading_replaces_a_slow_first_one() -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=8.0, back=0.0)
    assert not read(clock, 10.0, there=0.001, back=0.001)
    assert clock.value == pytest.approx(AHEAD)


def test_a_slow_reading_moves_nothing() -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=0.001, back=0.001)
    assert not read(clock, 5.0, there=8.0, back=0.0)
    assert clock.value == pytest.approx(AHEAD)


def test_the_quickest_of_the_last_minute_counts() -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=0.001, back=0.001)
    read(clock, 5.0, there=0.15, back=0.01)
    assert clock.value == pytest.approx(AHEAD)
    read(clock, KEEP_SECONDS + 1.0, there=0.1, back=0.02, ahead=AHEAD)
    assert clock.value == pytest.approx(AHEAD + 0.04)


def test_when_only_slow_readings_come_the_last_good_one_stays() -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=0.001, back=0.001)
    for at in range(10, 300, 10):
        assert not read(clock, float(at), there=0.3, back=0.0)
    assert clock.value == pytest.approx(AHEAD)


@pytest.mark.parametrize("jump", [-600.0, 600.0, -1.0, 1.0])
def test_a_clock_that_was_moved_is_followed_at_once(jump: float) -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=0.001, back=0.001)
    assert read(clock, 5.0, there=0.1, back=0.05, ahead=AHEAD + jump)
    assert clock.value == pytest.approx(AHEAD + jump, abs=0.1)


def test_a_moved_clock_is_followed_even_by_a_slow_reading() -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=0.001, back=0.001)
    assert read(clock, 5.0, there=1.0, back=1.0, ahead=AHEAD - 600.0)
    assert clock.value == pytest.approx(AHEAD - 600.0)
    assert not read(clock, 10.0, there=0.001, back=0.001, ahead=AHEAD - 600.0)


def test_a_clock_that_moved_while_only_slow_readings_came_is_followed() -> None:
    clock = ClockOffset(0.0)
    read(clock, 0.0, there=0.001, back=0.001)
    read(clock, 100.0, there=0.3, back=0.0)
    assert read(clock, 200.0, there=0.001, back=0.001, ahead=AHEAD + 5.0)
    assert clock.value == pytest.approx(AHEAD + 5.0)
