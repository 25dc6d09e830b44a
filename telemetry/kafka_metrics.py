"""Metrics of Kafka: the ingest actors, the relay, and the lag.

Numbers of actors cover all tenants; series that name a topic cover the asking tenant.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

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

INGEST, RELAY = "kafka-ingest", "kafka-relay"


class PartitionLag(NamedTuple):
    """How many messages of a partition are not stored yet."""

    topic: str
    partition: int
    records: int


_INGEST_COUNTERS = (
    ("muster_kafka_commits", "Offset commits to Kafka.", "commits"),
    ("muster_kafka_rebalances", "Times that partitions were taken away.", "rebalances"),
    ("muster_kafka_pauses", "Times that reading was paused because shards were behind.", "pauses"),
    ("muster_kafka_dead_letters", "Messages that could not be handled.", "dead_letters"),
)
_INGEST_GAUGES = (
    ("muster_kafka_in_flight", "Batches that are being stored.", "in_flight"),
    ("muster_kafka_held_back", "Batches that wait for shards that are behind.", "held_back"),
    ("muster_kafka_largest_batch", "Messages of the largest batch so far.", "largest_batch"),
)
_RELAY_COUNTERS = (
    ("muster_relay_published", "Events that the broker has confirmed.", "published"),
    ("muster_relay_failures", "Events that the broker refused; they are sent again.", "failures"),
    ("muster_relay_vanished", "Events whose wait was gone before they were sent.", "vanished"),
)
_RELAY_GAUGES = (
    ("muster_relay_backlog", "Events that the broker has not confirmed.", "backlog"),
    ("muster_relay_oldest_seconds", "Age of the oldest unconfirmed event.", "oldest"),
    ("muster_relay_held_topics", "Topics that accept no events at present.", "held_topics"),
    ("muster_relay_refused", "Events that their topics will never accept.", "refused"),
)


def kafka_families(
    actors: Sequence[Actor], lags: Iterable[PartitionLag], dead_letters: Mapping[str, int] | None
) -> Iterator[Metric]:
    """Yield every family; those of actors only if there are such actors."""
    readers, relays = of_kind(actors, INGEST), of_kind(actors, RELAY)
    if readers:
        yield gauge(
            "muster_kafka_connected",
            "1 if the actor is connected to a broker.",
            ["actor"],
            [([name_of(one)], int(_is_connected(one))) for one in (*readers, *relays)],
        )
        yield gauge(
            "muster_kafka_lag",
            "Messages of a partition that are there and not stored yet.",
            ["topic", "partition"],
            [([lag.topic, str(lag.partition)], lag.records) for lag in lags],
        )
        yield gauge(
            "muster_kafka_behind",
            "The lag of all partitions of an actor together.",
            ["actor"],
            [([name_of(one)], _lag_of(one)) for one in readers],
        )
        yield summary(
            "muster_kafka_batch_records",
            "Messages per batch.",
            ["actor"],
            [
                ([name_of(one)], stats_of(one).get("batches", 0), stats_of(one).get("records", 0))
                for one in readers
            ],
        )
        yield from from_stats(counter, _INGEST_COUNTERS, "actor", readers)
        yield from from_stats(gauge, _INGEST_GAUGES, "actor", readers)
    if relays:
        yield from from_stats(counter, _RELAY_COUNTERS, "actor", relays)
        yield from from_stats(gauge, _RELAY_GAUGES, "actor", relays)
    by_topic = [([topic], count) for topic, count in sorted((dead_letters or {}).items())]
    yield gauge("muster_dead_letters", "Open dead letters.", ["topic"], by_topic)


def kafka_events_received(actors: Iterable[Actor]) -> Iterator[tuple[str, str, int]]:
    """Yield actor, verdict and number of events from Kafka; those without ids are rejected."""
    for actor in of_kind(actors, INGEST):
        stats = stats_of(actor)
        verdicts = {
            name.removeprefix("verdict_"): int(count)
            for name, count in stats.items()
            if name.startswith("verdict_")
        }
        verdicts["rejected"] = verdicts.get("rejected", 0) + int(stats.get("unplaced", 0))
        for verdict, count in sorted(verdicts.items()):
            yield name_of(actor), verdict, count


def _is_connected(actor: Actor) -> bool:
    stats = stats_of(actor)
    return bool(actor.get("alive") and stats.get("connected") and not stats.get("error"))


def _lag_of(actor: Actor) -> int:
    return sum(row.get("lag") or 0 for row in stats_of(actor).get("partitions") or ())
