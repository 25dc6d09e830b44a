"""Many seeds on all cores; the first one that breaks a law ends it and is named."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from tests.simulation.clockwork import simulate
from tests.simulation.record_scenario import play_records
from tests.simulation.scenario import play

STEP = 100


class LawBrokenError(AssertionError):
    """A seed whose story broke a law."""


@dataclass(slots=True)
class Tried:
    """How many stories were played, and what happened in them."""

    seeds: int = 0
    refused_writes: int = 0
    log_lines: int = 0
    timed_out: int = 0
    published: int = 0
    record_changes: int = 0
    lost_transactions: int = 0
    shared_transactions: int = 0

    def add(self, other: "Tried") -> None:
        """Count what another process has tried."""
        self.seeds += other.seeds
        self.refused_writes += other.refused_writes
        self.log_lines += other.log_lines
        self.timed_out += other.timed_out
        self.published += other.published
        self.record_changes += other.record_changes
        self.lost_transactions += other.lost_transactions
        self.shared_transactions += other.shared_transactions


def try_seeds(first: int, last: int, progress: Callable[[Tried], None] | None = None) -> Tried:
    """Play the stories of first..last-1.

    Raises:
        LawBrokenError: Names the seed; `python -m tests.simulation SEED` replays it.
    """
    total = Tried()
    parts = [(start, min(start + STEP, last)) for start in range(first, last, STEP)]
    # Spawned, not forked: whatever threads this process has stay out of it.
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for tried in pool.imap_unordered(_try_some, parts):
            total.add(tried)
            if progress is not None:
                progress(total)
    return total


def _try_some(part: tuple[int, int]) -> Tried:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    tried = Tried()
    for seed in range(*part):
        try:
            story = simulate(play(seed))
            records = simulate(play_records(seed)).tables
        except Exception as error:
            raise LawBrokenError(
                f"seed {seed} breaks a law: {error!r}; python -m tests.simulation {seed}"
            ) from error
        tables = story.tables
        tried.add(
            Tried(
                1, tables.refused_writes, len(tables.log), story.timed_out, len(tables.outbox),
                len(records.changes), records.lost, records.merged,
            )
        )  # fmt: skip
    return tried
