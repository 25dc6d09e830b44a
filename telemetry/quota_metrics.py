"""How often one replica refused because a tenant's quota was used up."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class QuotaMetrics(Collector):
    """Plain numbers, counted by whoever refuses."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        self._replica = replica
        self.refused: Mapping[str, int] = {}
        """By the quota's name."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Tell Prometheus."""
        refused = CounterMetricFamily(
            "muster_quota_refused",
            "Requests refused because a quota of their tenant was used up.",
            labels=["replica", "quota"],
        )
        for quota, count in sorted(self.refused.items()):
            refused.add_metric([self._replica, quota], count)
        yield refused
