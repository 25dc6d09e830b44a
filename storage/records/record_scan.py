"""Reads and indexes the records of a collection batch by batch, in the order of their ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

BATCH = 200
"""The most records that are read at once."""
BATCH_BYTES = 4 * 1024 * 1024
"""The bytes of documents after which a batch ends."""


class ScannedRecord(NamedTuple):
    record_id: str
    version: int
    data: dict[str, Any]
    columns: tuple[str | None, str | None, str | None]
    """What stands in the columns of indexed fields."""


class IndexedColumns(NamedTuple):
    """What is to stand in the columns of a record that still has this version."""

    record_id: str
    version: int
    indexed_1: str | None
    indexed_2: str | None
    indexed_3: str | None


async def read_fields(
    conn: Connection | Pool, tenant: int, collection_no: int, fields: list[str], after: str
) -> list[ScannedRecord]:
    """Read the next records, each with some of its fields; none: there are no more.

    Deleted ones are left out.
    """
    place = (tenant, collection_no, fields, after)
    rows = await conn.fetch(Q["scan_record_fields"], *place, BATCH, BATCH_BYTES)
    return [
        ScannedRecord(
            row["record_id"],
            row["version"],
            {} if row["data"] is None else msgspec.json.decode(row["data"]),
            (row["indexed_1"], row["indexed_2"], row["indexed_3"]),
        )
        for row in rows
    ]


async def write_columns(
    conn: Connection | Pool, tenant: int, collection_no: int, rows: Sequence[IndexedColumns]
) -> set[str]:
    """Fill the columns of records; return their ids, without those that somebody holds."""
    if not rows:
        return set()
    columns = [list(column) for column in zip(*rows, strict=True)]
    written = await conn.fetch(Q["write_indexed_columns"], tenant, collection_no, *columns)
    return {row["record_id"] for row in written}
