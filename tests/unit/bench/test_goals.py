import pytest

from bench.goals import Goal


@pytest.mark.parametrize(
    ("written", "value", "met"),
    [
        ("≥ 5", 5.0, True),
        ("≥ 5", 4.99, False),
        ("≤ 0.25 s", 0.25, True),
        ("≤ 0.25 s", 0.26, False),
    ],
)
def test_a_goal_is_met_at_its_bound(written: str, value: float, *, met: bool) -> None:
    goal = Goal.read(written)
    assert goal.met_by(value) is met
    assert (goal.headroom(value) >= 1) is met


def test_a_goal_knows_its_unit() -> None:
    assert Goal.read("≤ 0.25 s").unit == "s"
    assert Goal.read("≥ 5").unit == ""


def test_nothing_at_all_has_a_headroom_that_can_be_drawn() -> None:
    assert Goal.read("≤ 100").headroom(0.0) == pytest.approx(100.0)
    assert Goal.read("≤ 100").headroom(-5.0) == pytest.approx(100.0)


@pytest.mark.parametrize("written", ["", "5", "> 5", "≥ five", "≥5"])
def test_what_is_not_a_goal_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="not a goal"):
        Goal.read(written)
