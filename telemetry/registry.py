"""The metrics page of one replica: numbers of all actors, of stored rows, and of this replica.

Numbers of actors come from the supervisor's report and are the same on every replica. Counters of
a replica carry its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from telemetry.actor_metrics import Actor, ActorMetrics, name_of
from telemetry.denials import Denials
from telemetry.families import actor_families, counter, gauge
from telemetry.gather_metrics import GatherMetrics, gather_families
from telemetry.ingress_metrics import EventMetrics, HttpMetrics, QuotaMetrics
from telemetry.kafka_metrics import PartitionLag, kafka_events_received, kafka_families

CONTENT_TYPE = CONTENT_TYPE_LATEST


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


class Metrics:
    def __init__(self, replica: str, declared: Sequence[ActorMetrics] = ()) -> None:
        # By path and verdict. Plain numbers: this is counted for every event.
        self._arrivals: dict[tuple[str, str], int] = {}
        self.denials = Denials(replica)
        self._shards = _SnapshotCollector(replica, declared, self._arrivals, self.denials)
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
        key = (path, verdict)
        self._arrivals[key] = self._arrivals.get(key, 0) + 1

    def count_shed(self) -> None:
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
        self,
        replica: str,
        declared: Sequence[ActorMetrics],
        arrivals: Mapping[tuple[str, str], int],
        denials: Denials,
    ) -> None:
        self.snapshot = MetricsSnapshot()
        self._declared = declared
        self._denials = denials
        self.stalled: Mapping[str, float] = {}
        self._replica = replica
        self._arrivals = arrivals

    def collect(self) -> Iterator[Metric]:
        snapshot = self.snapshot
        yield from _stored_rows(snapshot)
        yield from _actors(snapshot.actors)
        own = {"name": self._replica, "kind": "ingress", "stalled": self.stalled}
        yield _stalled([*snapshot.actors, own])
        for declared in self._declared:
            yield from actor_families(declared, snapshot.actors, snapshot.tenant)
        yield self._by_path()
        yield from kafka_families(snapshot.actors, snapshot.lags, snapshot.letters)
        yield from gather_families(snapshot.actors, snapshot.tenant)
        yield from self._denials.families(snapshot.tenant)

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
    by_severity = [
        ([severity], count) for severity, count in sorted((snapshot.warnings or {}).items())
    ]
    yield gauge(
        "muster_dispatch_warnings", "Warnings that are not acknowledged.", ["severity"], by_severity
    )


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
