"""A start that gets on is waited for; one that does not is not."""

from pathlib import Path

import pytest

from host.paths import instance_paths
from host.ray.serving import ASK_EVERY, Seldom
from host.start_deadline import StartDeadline, progress_marks


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_over_when_nothing_has_changed_for_too_long() -> None:
    clock, signs = Clock(), [0]
    deadline = StartDeadline(lambda: signs[0], quiet=10, most=100, clock=clock)
    for now in range(1, 50):
        clock.now, signs[0] = now, now // 8
        assert not deadline.has_passed()
    clock.now = 57.5
    assert not deadline.has_passed()
    clock.now = 58.5
    assert deadline.has_passed()
    assert deadline.waited == 58.5


def test_it_is_over_at_last_however_much_changes() -> None:
    clock = Clock()
    deadline = StartDeadline(clock, quiet=10, most=100, clock=clock)
    for now in range(1, 101):
        clock.now = now
        assert not deadline.has_passed()
    clock.now = 101
    assert deadline.has_passed()


def test_whatever_an_instance_says_is_a_sign(tmp_path: Path) -> None:
    places = instance_paths(tmp_path)
    before = progress_marks(places)
    assert progress_marks(places) == before
    places.log.write_text("PostgreSQL is up")
    assert progress_marks(places) != before


def test_a_question_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(), []
    monkeypatch.setattr("host.ray.serving.time.monotonic", clock)
    ask = Seldom(lambda: bool(asked.append(clock.now) or True))
    for tenth in range(25):
        clock.now = tenth / 10
        ask()
    assert asked == [ASK_EVERY, 2 * ASK_EVERY]
