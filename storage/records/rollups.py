"""Sums up the records that lead to a record, by the index of the field that leads there."""

from typing import Any

import msgspec

from core.records.field import RollupFunction, RollupSummary
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

MAX_DETAILS = 10_000
"""A summary of more records has no value: it would take too long."""


async def sum_up(
    pool: Pool, tenant: int, collection_no: int, slot: int, rollup: RollupSummary, record_id: str
) -> Any:
    """Return what the details of a record have together; None if nothing, or of too many.

    `slot` is the column of the field that leads to the record, from 0.
    """
    place = (tenant, collection_no, record_id)
    query = Q[f"sum_up_by_{slot + 1}"]
    (row,) = await pool.fetch(query, *place, rollup.field or "", MAX_DETAILS + 1)
    if row["records"] > MAX_DETAILS:
        return None
    if rollup.function is RollupFunction.COUNT:
        return row["records"]
    found: str | None = row[rollup.function.lower()]
    return None if found is None else msgspec.json.decode(found)
