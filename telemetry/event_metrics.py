"""Metrics of event intake and of quotas, counted by one replica."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.families import counter


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
