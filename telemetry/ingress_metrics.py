"""Metrics that one replica counts: plain numbers, because they are counted for every request."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.families import counter, histogram

BOUNDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True)
class _Times:
    """Durations of one route: the requests up to each bound, and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0


class HttpMetrics(Collector):
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
        yield histogram(
            "muster_http_request_seconds",
            "Time from request to the last byte of the answer, streams left out.",
            ["replica", "route"],
            BOUNDS,
            [([self._replica, route], t.counts, t.seconds) for route, t in self._times.items()],
        )


class EventMetrics(Collector):
    """Plain numbers, because they are counted for every event."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        self._replica = replica
        self.accepted = 0
        self.duplicate = 0
        self.refused = 0
        self.warned = 0
        self.jobs = 0
        self.tasks = 0
        self.filtered: Mapping[str, int] = {}
        """Results of subscriptions' filters; the filters count them."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        replica = self._replica
        yield counter(
            "muster_events_posted",
            "Events that were posted: stored, known already, or refused.",
            ["replica", "outcome"],
            [
                ([replica, "accepted"], self.accepted),
                ([replica, "duplicate"], self.duplicate),
                ([replica, "refused"], self.refused),
            ],
        )
        yield counter(
            "muster_events_warned",
            "Events that were stored although they do not match their schema.",
            ["replica"],
            [([replica], self.warned)],
        )
        yield counter(
            "muster_dispatch_jobs_created",
            "Dispatch jobs that were stored: EVENT made by events, TASK posted.",
            ["replica", "kind"],
            [([replica, "EVENT"], self.jobs), ([replica, "TASK"], self.tasks)],
        )
        yield counter(
            "muster_events_filtered",
            "Results of subscriptions' filters: passes, differs, failed, too_large.",
            ["replica", "judgement"],
            [([replica, result], count) for result, count in self.filtered.items()],
        )


class QuotaMetrics(Collector):
    """Refusals by quota; the code that refuses counts them."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        self._replica = replica
        self.refused: Mapping[str, int] = {}
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "muster_quota_refused",
            "Requests refused because a quota of their tenant was used up.",
            ["replica", "quota"],
            [([self._replica, quota], count) for quota, count in sorted(self.refused.items())],
        )
