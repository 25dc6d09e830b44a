"""Metrics of HTTP requests: plain numbers, because they are counted for every request."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.families import counter

BOUNDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Times:
    """Durations of one route: the requests up to each bound, and the sum in seconds."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0


class HttpMetrics(Collector):
    """Requests by route and status, and how long they took."""

    def __init__(self, replica: str) -> None:
        self._replica = replica
        self._requests: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, _Times] = {}

    def observe(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count one answered request; `seconds` is None if it was held open on purpose."""
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = _Times()
        if seconds is not None:
            times.counts[bisect_left(BOUNDS, seconds)] += 1
            times.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "muster_http_requests",
            "HTTP requests by route and status.",
            ["replica", "method", "route", "status"],
            [
                ([self._replica, method, route, str(status)], count)
                for (method, route, status), count in self._requests.items()
            ],
        )
        seconds = HistogramMetricFamily(
            "muster_http_request_seconds",
            "Time from request to the last byte of the answer, streams left out.",
            labels=["replica", "route"],
        )
        for route, times in self._times.items():
            buckets = cumulative(BOUNDS, times.counts)
            seconds.add_metric([self._replica, route], buckets, times.seconds)
        yield seconds


def cumulative(bounds: Sequence[float], counts: Sequence[float]) -> list[tuple[str, float]]:
    """Convert counts to cumulative buckets, as Prometheus requires."""
    total, buckets = 0.0, []
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets
