"""Counters of Kafka ingest, read by metrics, status and tests."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from services.kafka.ingest import IngestResult


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
        return {
            "records": self.records,
            "batches": self.batches,
            "largest_batch": self.largest_batch,
            "commits": self.commits,
            "rebalances": self.rebalances,
            "pauses": self.pauses,
            "unplaced": self.unplaced,
            "dead_letters": self.dead_letters,
            **{f"verdict_{name}": count for name, count in sorted(self.verdicts.items())},
        }
