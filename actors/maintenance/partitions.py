"""Keeps the weekly partitions of append-only tables: makes them ahead, drops the expired ones."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from actors.maintenance.cleanup import delete_all
from core.operations.partitions import (
    expired_partitions,
    expiry_bound,
    is_prepared,
    missing_partitions,
)
from services.shared.progress import WorkProgress
from storage.postgres import partitions
from storage.postgres.error_class import DATABASE_ERRORS
from storage.postgres.partitions import PartitionedTable
from storage.postgres.pool import Pool

log = structlog.get_logger("partitions")

KEEP_INTERVAL = 300.0
BATCH = 500


@dataclass(slots=True)
class PartitionCounters:
    """What was done since this process started, and how many partitions there are."""

    created: int = 0
    dropped: int = 0
    failed: int = 0
    existing: int = 0


class PartitionKeeper:
    """All steps may run twice or not at all; a later round makes up for it.

    A step that fails, as for a lock that is held, keeps none of the others from running.
    """

    def __init__(
        self,
        pool: Pool,
        retentions: Mapping[PartitionedTable, float],
        now: Callable[[], float],
        progress: WorkProgress | None = None,
    ) -> None:
        self._pool = pool
        self._retentions = retentions
        self._now = now
        self.progress = progress or WorkProgress()
        self.counters = PartitionCounters()

    async def keep(self) -> None:
        """Make what is missing and drop what is expired, of each table.

        It counts as progress as long as every table has its partition for the coming week.
        """
        self.progress.waits()
        existing = 0
        prepared = True
        for table, retention in self._retentions.items():
            await self._try("make ahead", table.name, partial(self._make_ahead, table))
            before = self._now() - retention
            await self._try("expire", table.name, partial(self._expire, table, before))
            found = await partitions.list_partitions(self._pool, table)
            existing += len(found)
            prepared = prepared and is_prepared(found, self._now())
        self.counters.existing = existing
        if prepared:
            self.progress.done()

    async def _make_ahead(self, table: PartitionedTable) -> None:
        existing = await partitions.list_partitions(self._pool, table)
        if not missing_partitions(table.name, existing, self._now()):
            return
        newest = await partitions.newest_in_default(self._pool, table)
        for one in missing_partitions(table.name, existing, self._now(), newest):
            work = partial(partitions.create, self._pool, table, one)
            if await self._try("create", one.name, work):
                self.counters.created += 1
                log.info("partitions.created", partition=one.name, first=one.first, end=one.end)

    async def _expire(self, table: PartitionedTable, before: float) -> None:
        existing = await partitions.list_partitions(self._pool, table)
        needed = await table.oldest_needed(self._pool)
        for one in expired_partitions(existing, before, needed):
            if await self._try("drop", one.name, partial(partitions.drop, self._pool, one)):
                self.counters.dropped += 1
                log.info("partitions.dropped", partition=one.name, first=one.first, end=one.end)
        bound = expiry_bound(before, needed)
        await delete_all(partial(partitions.delete_from_default, self._pool, table, bound, BATCH))

    async def _try(self, step: str, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except DATABASE_ERRORS as error:
            self.counters.failed += 1
            log.warning("partitions.failed", step=step, name=name, error=repr(error))
            return False
        return True
