"""Fills the columns and unique values of stored records anew after a definition changed.

It begins when no process uses the definition before the change any more: until then a record could
still be written without its new columns. Listings do without an index until it is filled.
"""

import asyncio
import time

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
        unique = unique_fields(row.definition)
        await unique_values.forget_others(self._pool, row, unique)
        fields = sorted({*unique, *(name for name in row.definition.slots if name is not None)})
        last, written, twice = "", 0, 0
        while True:
            began = time.monotonic()
            place = (row.tenant, row.collection_no)
            found = await record_scan.read_fields(self._pool, *place, fields, last)
            if not found:
                break
            stale = [columns for one in found if (columns := stale_columns(row.definition, one))]
            await record_scan.write_columns(self._pool, *place, stale)
            keys = [
                key
                for one in found
                for key in unique_values.unique_rows(unique, one.record_id, one.data)
            ]
            twice += len(await unique_values.add(self._pool, row, keys))
            written += len(stale)
            last = found[-1].record_id
            # Current traffic keeps at least half of the time.
            await asyncio.sleep(time.monotonic() - began)
        if twice:
            await warnings.warn(self._pool, _not_unique(row, twice))
        await collections.finish_reindexing(self._pool, row)
        log.info("collection.reindexed", name=row.name, tenant=row.tenant, records=written)


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
