"""The metrics page of one replica: numbers of all actors, of stored rows, and of this replica.

Numbers of actors come from the supervisor's report and are the same on every replica. Counters of
a replica carry its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.denials import Denials
from telemetry.dispatch_metrics import dispatch_families
from telemetry.event_metrics import EventMetrics, QuotaMetrics
from telemetry.families import (
    Actor,
    counter,
    from_stats,
    gauge,
    name_of,
    of_kind,
    stats_of,
    summary,
)
from telemetry.gather_metrics import GatherMetrics, gather_families
from telemetry.http_metrics import HttpMetrics, cumulative
from telemetry.kafka_metrics import PartitionLag, kafka_events_received, kafka_families

CONTENT_TYPE = CONTENT_TYPE_LATEST

# Upper bounds in seconds of `flush_seconds_buckets` in a shard's stats. The list there holds one
# count for each bound and one for all that took longer; counts are not cumulative.
FLUSH_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

Stats = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Numbers that are not counted in this process; None if they could not be read."""

    actors: tuple[Actor, ...] = ()
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
    """A counter of the shards: each of its stats becomes a label value."""

    name: str
    help: str
    stats: tuple[str, ...]
    label: str = ""
    prefix: str = ""


_SHARD_COUNTERS = (
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

_SHARD_GAUGES = (
    ("muster_hot_correlations", "Correlations in a shard's memory.", "hot"),
    ("muster_pending_messages", "Messages that wait for a shard's next flush.", "pending"),
)


class Metrics:
    """The registry of one replica."""

    def __init__(self, replica: str) -> None:
        # By path and verdict. Plain numbers: this is counted for every event.
        self._arrivals: dict[tuple[str, str], int] = {}
        self.denials = Denials(replica)
        self._shards = _SnapshotCollector(replica, self._arrivals, self.denials)
        # Seconds without progress, for each kind of work of this replica.
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
        self._shards.snapshot = snapshot
        self._shards.stalled = {work: seconds() for work, seconds in self.stalled.items()}
        self._in_flight.labels(self._replica, "request").set(requests)
        self._in_flight.labels(self._replica, "stream").set(streams)
        return generate_latest(self._registry)


class _SnapshotCollector(Collector):
    """Makes metric families of the latest snapshot."""

    def __init__(
        self, replica: str, arrivals: Mapping[tuple[str, str], int], denials: Denials
    ) -> None:
        self.snapshot = MetricsSnapshot()
        self._denials = denials
        self.stalled: Mapping[str, float] = {}
        self._replica = replica
        self._arrivals = arrivals

    def collect(self) -> Iterator[Metric]:
        yield from _stored_rows(self.snapshot)
        yield from _actors(self.snapshot.actors)
        own = {"name": self._replica, "kind": "ingress", "stalled": self.stalled}
        yield _stalled([*self.snapshot.actors, own])
        actors = of_kind(self.snapshot.actors, "shard")
        shards = [(name_of(actor), stats_of(actor)) for actor in actors]
        for count in _SHARD_COUNTERS:
            yield _counter(count, shards)
        yield from from_stats(gauge, _SHARD_GAUGES, "shard", actors)
        yield from _times(shards)
        yield self._by_path()
        snapshot = self.snapshot
        yield from kafka_families(snapshot.actors, snapshot.lags, snapshot.letters)
        yield from gather_families(snapshot.actors, snapshot.tenant)
        yield from self._denials.families(snapshot.tenant)
        yield from dispatch_families(snapshot.actors, snapshot.tenant, snapshot.warnings)

    def _by_path(self) -> Metric:
        http = [([self._replica, *key], count) for key, count in sorted(self._arrivals.items())]
        kafka = [
            ([actor, "kafka", verdict], count)
            for actor, verdict, count in kafka_events_received(self.snapshot.actors)
        ]
        return counter(
            "muster_arrivals",
            "Events by receiver, path and verdict.",
            ["receiver", "path", "verdict"],
            [*http, *kafka],
        )


def _stored_rows(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    waits, inbox = snapshot.waits, snapshot.inbox or {}
    active = [] if waits is None else [((), waits.get("waiting", 0))]
    yield gauge("muster_active_waits", "Waits that have not ended.", (), active)
    by_status = [([status], count) for status, count in sorted((waits or {}).items())]
    yield gauge("muster_waits", "Waits that are stored, by status.", ["status"], by_status)
    by_verdict = [(pair, count) for pair, count in sorted(inbox.items())]
    yield gauge("muster_inbox_events", "Events in the inbox.", ["verdict", "reason"], by_verdict)


def _actors(actors: Sequence[Actor]) -> Iterator[Metric]:
    labels = ["actor", "kind"]
    named = [([name_of(actor), str(actor.get("kind", ""))], actor) for actor in actors]
    up = [(values, int(bool(actor.get("alive")))) for values, actor in named]
    yield gauge("muster_actor_up", "1 if the actor answers.", labels, up)
    restarts = [(values, actor.get("restarts", 0)) for values, actor in named]
    yield counter("muster_actor_restarts", "Restarts of the actor.", labels, restarts)


def _stalled(actors: Iterable[Actor]) -> Metric:
    return gauge(
        "muster_stalled_seconds",
        "For how long work has been waiting without any of it getting done; 0 without any.",
        ["actor", "kind", "work"],
        [
            ([name_of(actor), str(actor.get("kind", "")), work], seconds)
            for actor in actors
            for work, seconds in (actor.get("stalled") or {}).items()
        ],
    )


def _counter(count: _Count, shards: list[tuple[str, Stats]]) -> Metric:
    rows = [
        ([shard, stat.removeprefix(count.prefix)] if count.label else [shard], stats.get(stat, 0))
        for shard, stats in shards
        for stat in count.stats
    ]
    labels = ["shard", count.label] if count.label else ["shard"]
    return counter(count.name, count.help, labels, rows)


def _times(shards: list[tuple[str, Stats]]) -> Iterator[Metric]:
    yield summary(
        "muster_wait_seconds",
        "How long ended waits had waited.",
        ["shard"],
        [
            (
                [shard],
                sum(value for name, value in stats.items() if name.startswith("ended_")),
                stats.get("wait_seconds_sum", 0.0),
            )
            for shard, stats in shards
        ],
    )
    yield summary(
        "muster_flush_rows",
        "Rows per flush.",
        ["shard"],
        [([shard], stats.get("flushes", 0), stats.get("flush_rows", 0)) for shard, stats in shards],
    )
    flush = HistogramMetricFamily("muster_flush_seconds", "Time per flush.", labels=["shard"])
    for shard, stats in shards:
        counts = stats.get("flush_seconds_buckets") or [0] * (len(FLUSH_BOUNDS) + 1)
        buckets = cumulative(FLUSH_BOUNDS, counts)
        flush.add_metric([shard], buckets, stats.get("flush_seconds_sum", 0.0))
    yield flush
