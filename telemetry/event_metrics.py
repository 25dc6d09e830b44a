"""What one replica counts of events that come in, and of the jobs they make."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class EventMetrics(Collector):
    """Plain numbers: they are counted for every event."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        self._replica = replica
        self.accepted = 0
        self.duplicate = 0
        self.refused = 0
        self.warned = 0
        self.jobs = 0
        self.tasks = 0
        self.filtered: Mapping[str, int] = {}
        """What filters of subscriptions said of events, counted by them."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """What Prometheus is told."""
        taken = CounterMetricFamily(
            "muster_events_posted",
            "Events that were posted: stored, known already, or refused.",
            labels=["replica", "outcome"],
        )
        taken.add_metric([self._replica, "accepted"], self.accepted)
        taken.add_metric([self._replica, "duplicate"], self.duplicate)
        taken.add_metric([self._replica, "refused"], self.refused)
        yield taken
        warned = CounterMetricFamily(
            "muster_events_warned",
            "Events that were stored although they do not fit their schema.",
            labels=["replica"],
        )
        warned.add_metric([self._replica], self.warned)
        yield warned
        made = CounterMetricFamily(
            "muster_dispatch_jobs_created",
            "Dispatch jobs that were stored: EVENT made by events, TASK posted.",
            labels=["replica", "kind"],
        )
        made.add_metric([self._replica, "EVENT"], self.jobs)
        made.add_metric([self._replica, "TASK"], self.tasks)
        yield made
        filtered = CounterMetricFamily(
            "muster_events_filtered",
            "What filters of subscriptions said of events: passes, differs, failed, too_large.",
            labels=["replica", "judgement"],
        )
        for judgement, count in self.filtered.items():
            filtered.add_metric([self._replica, judgement], count)
        yield filtered
