"""What Prometheus is told: the shards' own numbers, a census of the rows, and this replica's HTTP.

Shard counters come from the supervisor's report and are the same whichever replica is asked. HTTP
counters belong to one replica, so they carry its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.denials import Denials
from telemetry.dispatch_metrics import dispatch_families
from telemetry.event_metrics import EventMetrics
from telemetry.gather_families import gather_families
from telemetry.gather_metrics import GatherMetrics
from telemetry.http_metrics import HttpMetrics, cumulative
from telemetry.kafka_metrics import PartitionLag, kafka_events_received, kafka_families
from telemetry.quota_metrics import QuotaMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST

# Upper bounds in seconds of `flush_seconds_buckets` in a shard's stats. The list there holds one
# count for each bound and one for all that took longer; counts are not cumulative.
FLUSH_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

Stats = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Everything that is not counted in this process; None is what could not be read."""

    actors: tuple[Mapping[str, Any], ...] = ()
    waits: Mapping[str, int] | None = None
    inbox: Mapping[tuple[str, str], int] | None = None
    # Of the asking tenant, because they name topics.
    lags: tuple[PartitionLag, ...] = ()
    letters: Mapping[str, int] | None = None
    # Of the asking tenant, by severity.
    warnings: Mapping[str, int] | None = None
    tenant: int | None = None


@dataclass(frozen=True, slots=True)
class _Count:
    """A counter of the shards: its name, its help, and which stat goes under which label value."""

    name: str
    help: str
    stats: tuple[str, ...]
    label: str = ""
    prefix: str = ""


_COUNTS = (
    _Count("muster_waits_registered", "Waits that were registered.", ("registered",)),
    _Count(
        "muster_events",
        "Events by verdict: buffered ones were early.",
        ("matched", "buffered", "duplicate", "late", "rejected"),
        label="verdict",
    ),
    _Count(
        "muster_waits_ended",
        "Waits that ended, by status; the timeout rate is the share of status timeout.",
        ("ended_completed", "ended_timeout", "ended_failed", "ended_cancelled"),
        label="status",
        prefix="ended_",
    ),
    _Count(
        "muster_first_arrivals",
        "Arrival order: which source a wait's first event came from.",
        ("first_api", "first_kafka"),
        label="source",
        prefix="first_",
    ),
    _Count(
        "muster_resume_conflicts",
        "Writes that lost their row to another owner and were decided again.",
        ("conflicts",),
    ),
    _Count("muster_activations", "Correlations that were loaded from Postgres.", ("loads",)),
    _Count("muster_passivations", "Idle correlations that left memory.", ("passivated",)),
    _Count("muster_flush_failures", "Flushes that Postgres did not take.", ("flush_failures",)),
    _Count("muster_rows_refused", "Changes that Postgres will never take.", ("rows_refused",)),
)

_LEVELS = (
    ("muster_hot_correlations", "Correlations in a shard's memory.", "hot"),
    ("muster_pending_messages", "Messages that wait for a shard's next flush.", "pending"),
)


class Metrics:
    """One replica's registry."""

    def __init__(self, replica: str) -> None:
        # By path and verdict. Plain numbers: this is counted for every event.
        self._arrivals: dict[tuple[str, str], int] = {}
        self.denials = Denials(replica)
        self._shards = _SnapshotCollector(replica, self._arrivals, self.denials)
        # Work of this replica, and for how many seconds it has not got on.
        self.stalled: Mapping[str, Callable[[], float]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self._shards)
        self._replica = replica
        self.gathers = GatherMetrics(self._registry, replica)
        self.events = EventMetrics(self._registry, replica)
        self.quotas = QuotaMetrics(self._registry, replica)
        self.http = HttpMetrics(replica)
        self._registry.register(self.http)
        self._shed = Counter(
            "muster_http_shed",
            "Requests refused because this replica held enough already.",
            ("replica",),
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "muster_http_in_flight",
            "Requests under way, and streams and long polls being held open.",
            ("replica", "kind"),
            registry=self._registry,
        )

    def count_event(self, path: str, verdict: str) -> None:
        """Count one event that came in by HTTP."""
        key = (path, verdict)
        self._arrivals[key] = self._arrivals.get(key, 0) + 1

    def count_shed(self) -> None:
        """Count one request that was refused for load."""
        self._shed.labels(self._replica).inc()

    def render(self, snapshot: MetricsSnapshot, *, requests: int, streams: int) -> bytes:
        """The whole page for Prometheus."""
        self._shards.snapshot = snapshot
        self._shards.stalled = {work: seconds() for work, seconds in self.stalled.items()}
        self._in_flight.labels(self._replica, "request").set(requests)
        self._in_flight.labels(self._replica, "stream").set(streams)
        return generate_latest(self._registry)


class _SnapshotCollector(Collector):
    """Turns the latest snapshot into metric families."""

    def __init__(
        self, replica: str, arrivals: Mapping[tuple[str, str], int], denials: Denials
    ) -> None:
        self.snapshot = MetricsSnapshot()
        self._denials = denials
        self.stalled: Mapping[str, float] = {}
        self._replica = replica
        self._arrivals = arrivals

    def collect(self) -> Iterator[Metric]:
        yield from _census(self.snapshot)
        yield from _actors(self.snapshot.actors)
        own = {"name": self._replica, "kind": "ingress", "stalled": self.stalled}
        yield _stalled([*self.snapshot.actors, own])
        shards = [
            (str(actor["name"]), actor.get("stats") or {})
            for actor in self.snapshot.actors
            if actor.get("kind") == "shard"
        ]
        for count in _COUNTS:
            yield _counter(count, shards)
        for name, text, stat in _LEVELS:
            yield _gauge(name, text, shards, stat)
        yield from _times(shards)
        yield self._by_path()
        snapshot = self.snapshot
        yield from kafka_families(snapshot.actors, snapshot.lags, snapshot.letters)
        yield from gather_families(snapshot.actors, snapshot.tenant)
        yield from self._denials.families(snapshot.tenant)
        yield from dispatch_families(snapshot.actors, snapshot.tenant, snapshot.warnings)

    def _by_path(self) -> Metric:
        family = CounterMetricFamily(
            "muster_arrivals",
            "Events by who took them, the path they came by and their verdict.",
            labels=["receiver", "path", "verdict"],
        )
        for (path, verdict), count in sorted(self._arrivals.items()):
            family.add_metric([self._replica, path, verdict], count)
        for actor, verdict, count in kafka_events_received(self.snapshot.actors):
            family.add_metric([actor, "kafka", verdict], count)
        return family


def _census(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    active = GaugeMetricFamily("muster_active_waits", "Waits that have not ended.")
    if snapshot.waits is not None:
        active.add_metric([], snapshot.waits.get("waiting", 0))
    yield active
    kept = GaugeMetricFamily("muster_waits", "Waits that are kept, by status.", labels=["status"])
    for status, waits in sorted((snapshot.waits or {}).items()):
        kept.add_metric([status], waits)
    yield kept
    inbox = GaugeMetricFamily(
        "muster_inbox_events", "Events in the inbox.", labels=["verdict", "reason"]
    )
    for (verdict, reason), events in sorted((snapshot.inbox or {}).items()):
        inbox.add_metric([verdict, reason], events)
    yield inbox


def _actors(actors: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    up = GaugeMetricFamily("muster_actor_up", "1 if the actor answers.", labels=["actor", "kind"])
    restarts = CounterMetricFamily(
        "muster_actor_restarts", "How often the actor came back.", labels=["actor", "kind"]
    )
    for actor in actors:
        labels = [str(actor.get("name", "")), str(actor.get("kind", ""))]
        up.add_metric(labels, 1 if actor.get("alive") else 0)
        restarts.add_metric(labels, actor.get("restarts", 0))
    yield up
    yield restarts


def _stalled(actors: Iterable[Mapping[str, Any]]) -> Metric:
    family = GaugeMetricFamily(
        "muster_stalled_seconds",
        "For how long work has been waiting without any of it getting done; 0 without any.",
        labels=["actor", "kind", "work"],
    )
    for actor in actors:
        for work, seconds in (actor.get("stalled") or {}).items():
            family.add_metric([str(actor["name"]), str(actor.get("kind", "")), work], seconds)
    return family


def _counter(count: _Count, shards: list[tuple[str, Stats]]) -> Metric:
    labels = ["shard", count.label] if count.label else ["shard"]
    family = CounterMetricFamily(count.name, count.help, labels=labels)
    for shard, stats in shards:
        for stat in count.stats:
            values = [shard, stat.removeprefix(count.prefix)] if count.label else [shard]
            family.add_metric(values, stats.get(stat, 0))
    return family


def _gauge(name: str, text: str, shards: list[tuple[str, Stats]], stat: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["shard"])
    for shard, stats in shards:
        family.add_metric([shard], stats.get(stat, 0))
    return family


def _times(shards: list[tuple[str, Stats]]) -> Iterator[Metric]:
    waited = SummaryMetricFamily(
        "muster_wait_seconds", "How long ended waits had waited.", labels=["shard"]
    )
    rows = SummaryMetricFamily("muster_flush_rows", "Rows per flush.", labels=["shard"])
    flush = HistogramMetricFamily("muster_flush_seconds", "Time per flush.", labels=["shard"])
    for shard, stats in shards:
        ended = sum(value for name, value in stats.items() if name.startswith("ended_"))
        waited.add_metric([shard], ended, stats.get("wait_seconds_sum", 0.0))
        rows.add_metric([shard], stats.get("flushes", 0), stats.get("flush_rows", 0))
        flush.add_metric([shard], _buckets(stats), stats.get("flush_seconds_sum", 0.0))
    yield waited
    yield rows
    yield flush


def _buckets(stats: Stats) -> list[tuple[str, float]]:
    counts = stats.get("flush_seconds_buckets") or [0] * (len(FLUSH_BOUNDS) + 1)
    return cumulative(FLUSH_BOUNDS, counts)
