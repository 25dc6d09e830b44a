import pytest

from bench.audience import Report
from bench.sse import Shown


def report(latencies: list[float], memory: int = 0, cpu: float = 0.0, own: float = 0.0) -> Report:
    return Report(
        opened=2.0,
        memory=memory,
        latencies=latencies,
        cpu_seconds=cpu,
        own_cpu_seconds=own,
        frame=480.0,
    )


def test_a_round_of_several_audiences_is_one_round() -> None:
    empty = 10 * 1024**2
    first = report([0.1, 0.3], memory=empty + 100 * 20 * 1024, cpu=0.03, own=0.003)
    second = report([0.2], memory=empty + 1, cpu=0.03, own=0.003)
    shown = Shown.of([first, second], readers=100, empty=empty)
    assert shown.latencies == [0.1, 0.3, 0.2]
    # What has grown between the empty process and the first audience.
    assert shown.kb_each == pytest.approx(20.0)
    # 60 ms for three publishes to a hundred readers.
    assert shown.cpu_us_per_frame == pytest.approx(200.0)
    assert shown.readers_cpu_share == pytest.approx(0.1)
    assert shown.opened_per_second == pytest.approx(50.0)


def test_percentiles_are_told_in_milliseconds() -> None:
    shown = Shown.of([report([n / 1000 for n in range(1, 101)], cpu=1.0)], readers=1, empty=0)
    assert (shown.ms(0.5), shown.ms(0.99)) == pytest.approx((50.0, 99.0))
