"""Fills the columns and unique values of stored records anew after a definition changed.

It begins when no process uses the definition before the change any more: until then a record could
still be written without its new columns. Listings do without an index until it is filled.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import structlog

from core.records.collection import CollectionDefinition, unique_fields
from core.records.comparison import indexed_text
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool
from storage.records import collections, record_scan, unique_values
from storage.records.collections import CollectionRow
from storage.records.record_scan import IndexedColumns, ScannedRecord

log = structlog.get_logger("reindexer")

AT_ONCE = 10
"""Collections of one round."""
MAX_ATTEMPTS = 100
"""How often a page is tried while somebody holds records of it."""
RETRY_PAUSE = 0.05
FIRST_KEY = ("", b"")


P = TypeVar("P")


class PageOutcome(NamedTuple, Generic[P]):
    """Whether all of a page is done, and where the next one begins; None: it was the last."""

    is_done: bool
    following: P | None


class InterruptedFillError(Exception):
    """A collection cannot be filled now; a later round begins anew."""


class Reindexer:
    """May be interrupted at any time; a later round begins anew."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(self) -> int:
        """Fill the columns of the collections that are due; return how many there were."""
        due = await collections.to_reindex(self._pool, AT_ONCE)
        for row in due:
            await self._reindex(row)
        return len(due)

    async def _reindex(self, row: CollectionRow) -> None:
        await unique_values.forget_others(self._pool, row, unique_fields(row.definition))
        fill = _CollectionFill(self._pool, row)
        try:
            await fill.each_page(fill.drop_stale_keys, FIRST_KEY)
            await fill.each_page(fill.fill, "")
        except InterruptedFillError as error:
            log.warning(
                "collection.not_reindexed", name=row.name, tenant=row.tenant, why=str(error)
            )
            return
        if fill.twice:
            await warnings.warn(self._pool, _not_unique(row, fill.twice))
        await collections.finish_reindexing(self._pool, row)
        log.info("collection.reindexed", name=row.name, tenant=row.tenant, records=fill.written)


class _CollectionFill:
    """Fills the records of one collection, page by page.

    A page is done once all its records are. One that somebody holds or changes is read again: it
    may be as it was afterwards, such as a master that only had to stay while it got a detail.
    """

    def __init__(self, pool: Pool, row: CollectionRow) -> None:
        self._pool = pool
        self._row = row
        self._unique = unique_fields(row.definition)
        slots = (name for name in row.definition.slots if name is not None)
        self._fields = sorted({*self._unique, *slots})
        self.written = 0
        self.twice = 0
        """Values that another record has."""

    async def each_page(self, work: Callable[[P], Awaitable[PageOutcome[P]]], first: P) -> None:
        """Work on all pages.

        Raises:
            InterruptedFillError: The definition has changed, or others hold records for long.
        """
        place: P | None = first
        attempts = 0
        while place is not None:
            if not await collections.is_current(self._pool, self._row):
                raise InterruptedFillError("its definition has changed meanwhile")
            began = time.monotonic()
            outcome = await work(place)
            # Current traffic keeps at least half of the time.
            await asyncio.sleep(time.monotonic() - began)
            attempts += 1
            if outcome.is_done:
                place, attempts = outcome.following, 0
            elif attempts == MAX_ATTEMPTS:
                raise InterruptedFillError("some of its records are held all the time")
            else:
                await asyncio.sleep(RETRY_PAUSE)

    async def drop_stale_keys(self, after: tuple[str, bytes]) -> PageOutcome[tuple[str, bytes]]:
        """Delete unique values that records lost by writes that did not know of them."""
        page = await unique_values.stale_page(self._pool, self._row, after)
        done = await unique_values.drop_stale(self._pool, self._row, page)
        return PageOutcome(done >= page.versions.keys(), page.last)

    async def fill(self, after: str) -> PageOutcome[str]:
        """Fill columns and unique values."""
        row, place = self._row, (self._row.tenant, self._row.collection_no)
        found = await record_scan.read_fields(self._pool, *place, self._fields, after)
        stale = [columns for one in found if (columns := stale_columns(row.definition, one))]
        written = await record_scan.write_columns(self._pool, *place, stale)
        keys = [
            key
            for one in found
            for key in unique_values.unique_rows(self._unique, one.record_id, one.data)
        ]
        lacking = await unique_values.lacking(self._pool, row, keys)
        versions = {one.record_id: one.version for one in found}
        filled = await unique_values.fill(self._pool, row, lacking, versions)
        self.written += len(written)
        left = ({one.record_id for one in stale} - written) | (
            {one.record_id for one in lacking} - filled
        )
        if not left:
            self.twice += len(await unique_values.lacking(self._pool, row, lacking))
        return PageOutcome(not left, found[-1].record_id if found else None)


def stale_columns(definition: CollectionDefinition, one: ScannedRecord) -> IndexedColumns | None:
    """Return what the columns of a record must hold, or None if they do."""
    by_name = definition.by_name
    first, second, third = (
        None if name is None else indexed_text(by_name[name], one.data.get(name))
        for name in definition.slots
    )
    if (first, second, third) == one.columns:
        return None
    return IndexedColumns(one.record_id, one.version, first, second, third)


def _not_unique(row: CollectionRow, twice: int) -> NewWarning:
    return NewWarning(
        tenant=row.tenant,
        category="CONFIGURATION",
        severity=Severity.WARNING,
        source=f"collections/{row.name}",
        message=f"{twice} values of unique fields were written twice while the definition changed",
    )
