"""What Prometheus is told of Kafka: the ingest actors' numbers, the relay's, and the lag.

The numbers of actors are everybody's; series that name a topic are those of the asking tenant.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

Actor = Mapping[str, Any]


class PartitionLag(NamedTuple):
    """How many records of a partition are not stored yet."""

    topic: str
    partition: int
    records: int


_COUNTS = (
    ("muster_kafka_commits", "Offset commits to Kafka.", "commits"),
    ("muster_kafka_rebalances", "Times that partitions were taken away.", "rebalances"),
    ("muster_kafka_pauses", "Times that reading was paused because shards were behind.", "pauses"),
    ("muster_kafka_dead_letters", "Records that could not be handled.", "dead_letters"),
)
_LEVELS = (
    ("muster_kafka_in_flight", "Batches that are being stored.", "in_flight"),
    ("muster_kafka_held_back", "Batches that wait for shards that are behind.", "held_back"),
    ("muster_kafka_largest_batch", "Records of the largest batch so far.", "largest_batch"),
)
_PUBLISHED = (
    ("muster_relay_published", "Events that the broker has confirmed.", "published"),
    ("muster_relay_failures", "Events that the broker did not take; they go again.", "failures"),
    ("muster_relay_vanished", "Events whose wait was gone before they were sent.", "vanished"),
)
_WAITING = (
    ("muster_relay_backlog", "Events that the broker has not confirmed.", "backlog"),
    ("muster_relay_oldest_seconds", "How long the oldest of them has waited.", "oldest"),
    ("muster_relay_held_topics", "Topics that take nothing at present.", "held_topics"),
    ("muster_relay_refused", "Events that their topics will not take.", "refused"),
)


def kafka_families(
    actors: Sequence[Actor], lags: Iterable[PartitionLag], letters: Mapping[str, int] | None
) -> Iterator[Metric]:
    """Every family; those of actors only where there are such actors."""
    readers = [actor for actor in actors if actor.get("kind") == "kafka-ingest"]
    relays = [actor for actor in actors if actor.get("kind") == "kafka-relay"]
    if readers:
        yield _connected([*readers, *relays])
        yield _lag(lags)
        yield _behind(readers)
        yield _batches(readers)
        yield from _family(CounterMetricFamily, _COUNTS, readers)
        yield from _family(GaugeMetricFamily, _LEVELS, readers)
    if relays:
        yield from _family(CounterMetricFamily, _PUBLISHED, relays)
        yield from _family(GaugeMetricFamily, _WAITING, relays)
    buried = GaugeMetricFamily("muster_dead_letters", "Open dead letters.", labels=["topic"])
    for topic, count in sorted((letters or {}).items()):
        buried.add_metric([topic], count)
    yield buried


def kafka_events_received(actors: Iterable[Actor]) -> Iterator[tuple[str, str, int]]:
    """Who took how many events from Kafka with which verdict; those without ids are rejected."""
    for actor in actors:
        if actor.get("kind") != "kafka-ingest":
            continue
        stats = actor.get("stats") or {}
        verdicts = {
            name.removeprefix("verdict_"): int(count)
            for name, count in stats.items()
            if name.startswith("verdict_")
        }
        verdicts["rejected"] = verdicts.get("rejected", 0) + int(stats.get("unplaced", 0))
        for verdict, count in sorted(verdicts.items()):
            yield str(actor["name"]), verdict, count


def _connected(actors: Iterable[Actor]) -> Metric:
    family = GaugeMetricFamily(
        "muster_kafka_connected", "1 if the actor is connected to a broker.", labels=["actor"]
    )
    for actor in actors:
        stats = actor.get("stats") or {}
        is_up = actor.get("alive") and stats.get("connected") and not stats.get("error")
        family.add_metric([str(actor["name"])], 1 if is_up else 0)
    return family


def _lag(lags: Iterable[PartitionLag]) -> Metric:
    family = GaugeMetricFamily(
        "muster_kafka_lag",
        "Records of a partition that are there and not stored yet.",
        labels=["topic", "partition"],
    )
    for lag in lags:
        family.add_metric([lag.topic, str(lag.partition)], lag.records)
    return family


def _behind(readers: Iterable[Actor]) -> Metric:
    family = GaugeMetricFamily(
        "muster_kafka_behind", "The lag of all partitions of an actor together.", labels=["actor"]
    )
    for actor in readers:
        rows = (actor.get("stats") or {}).get("partitions") or ()
        family.add_metric([str(actor["name"])], sum(row.get("lag") or 0 for row in rows))
    return family


def _batches(readers: Iterable[Actor]) -> Metric:
    family = SummaryMetricFamily(
        "muster_kafka_batch_records", "Records per batch.", labels=["actor"]
    )
    for actor in readers:
        stats = actor.get("stats") or {}
        family.add_metric([str(actor["name"])], stats.get("batches", 0), stats.get("records", 0))
    return family


def _family(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    rows: Iterable[tuple[str, str, str]],
    actors: Sequence[Actor],
) -> Iterator[Metric]:
    for name, text, stat in rows:
        family = kind(name, text, labels=["actor"])
        for actor in actors:
            family.add_metric([str(actor["name"])], (actor.get("stats") or {}).get(stat, 0))
        yield family
