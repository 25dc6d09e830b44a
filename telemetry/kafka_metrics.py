"""Metrics of Kafka that are no stat of one actor: connections, lag and dead letters.

Series that name a topic cover the asking tenant.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.metrics_core import Metric

from telemetry.actor_metrics import Actor, name_of, stats_of
from telemetry.families import gauge, of_kind

INGEST, RELAY = "kafka-ingest", "kafka-relay"


class PartitionLag(NamedTuple):
    """How many messages of a partition are not stored yet."""

    topic: str
    partition: int
    records: int


def kafka_families(
    actors: Sequence[Actor], lags: Iterable[PartitionLag], dead_letters: Mapping[str, int] | None
) -> Iterator[Metric]:
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
    by_topic = [([topic], count) for topic, count in sorted((dead_letters or {}).items())]
    yield gauge("muster_dead_letters", "Open dead letters.", ["topic"], by_topic)


def kafka_events_received(actors: Iterable[Actor]) -> Iterator[tuple[str, str, int]]:
    """Yield actor, verdict and number of events from Kafka; those without ids are rejected."""
    for actor in of_kind(actors, INGEST):
        stats = stats_of(actor)
        verdicts = verdicts_of(stats)
        verdicts["rejected"] = verdicts.get("rejected", 0) + int(stats.get("unplaced", 0))
        for verdict, count in sorted(verdicts.items()):
            yield name_of(actor), verdict, count


def verdicts_of(stats: Mapping[str, Any]) -> dict[str, int]:
    """Return how many events got each verdict."""
    named = {name.removeprefix("verdict_"): name for name in stats if name.startswith("verdict_")}
    return {verdict: int(stats[name]) for verdict, name in named.items()}


def _is_connected(actor: Actor) -> bool:
    stats = stats_of(actor)
    return bool(actor.get("alive") and stats.get("connected") and not stats.get("error"))


def _lag_of(actor: Actor) -> int:
    return sum(row.get("lag") or 0 for row in stats_of(actor).get("partitions") or ())
