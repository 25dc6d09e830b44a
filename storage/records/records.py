"""Records in Postgres, as the API reads them; shards write them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from core.records.record import ChangeKind
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from storage.records.record_listing import PAGE_BYTES, RecordRow

AFTER_ALL_CHANGES = "~"
"""Greater than any id of a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One version of a record; documents are JSON."""

    change_id: str
    version: int
    kind: ChangeKind
    data: str
    before: str | None
    user_id: str | None
    turn_id: str
    at: float


class DetailRow(NamedTuple):
    """A record, and the one that it belongs to."""

    master_id: str
    record_id: str


class ChangePage(NamedTuple):
    """Some changes of a record, and whether no older ones are kept."""

    rows: list[ChangeRow]
    is_last: bool


async def read(pool: Pool, tenant: int, collection_no: int, record_id: str) -> RecordRow | None:
    """Read a record that is not deleted."""
    row = await pool.fetchrow(Q["read_record"], tenant, collection_no, record_id)
    return None if row is None else msgspec.convert(dict(row), RecordRow)


async def version(pool: Pool, tenant: int, collection_no: int, record_id: str) -> int | None:
    """Return the version of a record that is not deleted."""
    row = await read(pool, tenant, collection_no, record_id)
    return None if row is None else row.version


async def read_version(
    pool: Pool, tenant: int, collection_no: int, record_id: str, version: int
) -> ChangeRow | None:
    """Read a record as of a version; None if that is unknown or past its retention."""
    row = await pool.fetchrow(Q["read_record_version"], tenant, collection_no, record_id, version)
    return None if row is None else msgspec.convert(dict(row), ChangeRow)


async def history(
    pool: Pool, tenant: int, collection_no: int, record_id: str, before: str | None, limit: int
) -> ChangePage:
    """Read the changes of a record, the latest first."""
    place = (tenant, collection_no, record_id, before or AFTER_ALL_CHANGES)
    found = await pool.fetch(Q["list_record_changes"], *place, limit, PAGE_BYTES)
    rows = [msgspec.convert(dict(row), ChangeRow) for row in found if row["data"] is not None]
    return ChangePage(rows, is_last=len(found) < limit and len(rows) == len(found))


async def details(
    pool: Pool,
    tenant: int,
    column: tuple[int, int],
    master_ids: Sequence[str],
    besides: Sequence[str],
    limit: int,
) -> list[DetailRow]:
    """Return records whose indexed field leads to one of these masters.

    `column` is the number of their collection, and that of the column, from 0. There are up to
    `limit` of each master; those whose ids are in `besides` are left out.
    """
    collection_no, slot = column
    place = (tenant, collection_no, master_ids, besides, limit)
    return [DetailRow(*row) for row in await pool.fetch(Q[f"find_details_by_{slot + 1}"], *place)]


async def lease_numbers(pool: Pool, tenant: int, collection_no: int, field: str, count: int) -> int:
    """Take numbers for an AUTO_NUMBER field; return the first of them."""
    first: int = await pool.fetchval(Q["lease_auto_numbers"], tenant, collection_no, field, count)
    return first
