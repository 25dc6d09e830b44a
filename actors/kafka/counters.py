"""Counters of Kafka ingest and of the relay, read by metrics, status and tests."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

from services.kafka.ingest import IngestResult
from telemetry.actor_metrics import ActorMetrics, Stat, SummaryStat

INGEST_METRICS = ActorMetrics(
    kind="kafka-ingest",
    labels=("actor",),
    counters=(
        Stat("kafka_commits", "Offset commits to Kafka.", "commits"),
        Stat("kafka_rebalances", "Times that partitions were taken away.", "rebalances"),
        Stat("kafka_pauses", "Times that reading was paused because shards were behind.", "pauses"),
        Stat("kafka_dead_letters", "Messages that could not be handled.", "dead_letters"),
    ),
    gauges=(
        Stat("kafka_in_flight", "Batches that are being stored.", "in_flight"),
        Stat("kafka_held_back", "Batches that wait for shards that are behind.", "held_back"),
        Stat("kafka_largest_batch", "Messages of the largest batch so far.", "largest_batch"),
    ),
    summaries=(SummaryStat("kafka_batch_records", "Messages per batch.", ("batches",), "records"),),
)
RELAY_METRICS = ActorMetrics(
    kind="kafka-relay",
    labels=("actor",),
    counters=(
        Stat("relay_published", "Events that the broker has confirmed.", "published"),
        Stat("relay_failures", "Events that the broker refused; they are sent again.", "failures"),
        Stat("relay_vanished", "Events whose wait was gone before they were sent.", "vanished"),
    ),
    gauges=(
        Stat("relay_backlog", "Events that the broker has not confirmed.", "backlog"),
        Stat("relay_oldest_seconds", "Age of the oldest unconfirmed event.", "oldest"),
        Stat("relay_held_topics", "Topics that accept no events at present.", "held_topics"),
        Stat("relay_refused", "Events that their topics will never accept.", "refused"),
    ),
)


@dataclass(slots=True)
class IngestCounters:
    """Counters since this process started."""

    records: int = 0
    batches: int = 0
    largest_batch: int = 0
    commits: int = 0
    rebalances: int = 0
    pauses: int = 0
    unplaced: int = 0
    dead_letters: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    def batch(self, records: int) -> None:
        """Count a batch that was read."""
        self.batches += 1
        self.records += records
        self.largest_batch = max(self.largest_batch, records)

    def handled(self, done: IngestResult) -> None:
        """Count the results of a stored batch."""
        self.verdicts.update(done.verdicts)
        self.unplaced += done.unplaced
        self.dead_letters += len(done.dead_letters)

    def snapshot(self) -> dict[str, Any]:
        counts = {one.name: getattr(self, one.name) for one in fields(self)}
        verdicts = sorted(counts.pop("verdicts").items())
        return counts | {f"verdict_{name}": count for name, count in verdicts}
