"""How a noisy neighbour is judged: pure arithmetic over what a quiet tenant met."""

from tools.chaos.faults.neighbour import WINDOWS, NeighbourComparison
from tools.chaos.faults.noisy_tenant import NoiseResult
from tools.chaos.latency import ALLOWED_SECONDS, LatencyWindow


def compared(alone: float, beside: float, refused: int = 0) -> NeighbourComparison:
    quiet = [LatencyWindow([alone] * 200) for _ in range(WINDOWS)]
    loud = [LatencyWindow([beside] * 200, ["429"] * refused) for _ in range(WINDOWS)]
    return NeighbourComparison(quiet, loud)


def test_three_times_as_slow_is_the_bound() -> None:
    assert compared(0.2, 0.6).holds
    assert not compared(0.2, 0.61).holds


def test_what_is_fast_enough_for_anybody_is_allowed() -> None:
    assert compared(0.001, ALLOWED_SECONDS).holds
    assert not compared(0.001, ALLOWED_SECONDS + 0.001).holds


def test_one_slow_window_is_no_verdict() -> None:
    found = compared(0.1, 0.2)
    found.beside[0] = LatencyWindow([9.0] * 100)
    assert found.holds
    found.beside[1] = LatencyWindow([9.0] * 100)
    assert not found.holds


def test_to_be_refused_is_to_be_disturbed() -> None:
    assert compared(0.1, 0.1, refused=2).holds
    found = compared(0.1, 0.1, refused=3)
    assert not found.holds
    assert "6 refused (429)" in str(found)


def test_who_was_never_answered_was_not_served() -> None:
    found = compared(0.1, 0.1)
    found.beside[:] = [LatencyWindow() for _ in range(WINDOWS)]
    assert not found.holds
    assert LatencyWindow().median > ALLOWED_SECONDS


def test_the_99th_of_a_hundred_counts() -> None:
    assert LatencyWindow([0.1] * 98 + [0.5, 0.6]).p99 == 0.6
    assert LatencyWindow([0.1] * 299 + [0.6]).p99 == 0.1


def test_a_bystander_counts_what_was_not_carried_out() -> None:
    assert LatencyWindow([0.1] * 3, ["503"]).failure_share == 0.25
    assert LatencyWindow().failure_share == 0.0


def test_what_the_noise_was_allowed_to_do() -> None:
    assert NoiseResult(answers={200: 3, 201: 4, 429: 5, 0: 1}).accepted == 7
