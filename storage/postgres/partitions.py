"""Makes and drops the partitions of tables that are only appended to, beside running traffic.

A statement that waits for a lock on a table blocks all later ones on it, so none waits for long: it
fails, and a later round tries again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from core.operations.partitions import Partition
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

LOCK_TIMEOUT = 0.5
STATEMENT_TIMEOUT = 10.0
"""Bounds the check that no row of a new partition is in the default one."""

OldestNeeded = Callable[[Pool], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedTable:
    """A table that is partitioned by ranges of ids, and has a default partition."""

    name: str
    id_column: str
    oldest_needed: OldestNeeded
    """Reads the oldest id that must stay, whatever its age."""

    @property
    def default(self) -> str:
        return f"{self.name}_default"


async def list_partitions(pool: Pool, table: PartitionedTable) -> list[Partition]:
    """List all partitions but the default one."""
    rows = await pool.fetch(Q["list_partitions"], table.name)
    return [Partition(*row) for row in rows if row["first"] is not None]


async def newest_in_default(pool: Pool, table: PartitionedTable) -> str | None:
    """Return the newest id of the default partition, which is nearly always empty."""
    newest: str | None = await pool.fetchval(
        f"select max({table.id_column}) from {table.default}"  # noqa: S608  names of our own
    )
    return newest


async def create(pool: Pool, table: PartitionedTable, partition: Partition) -> None:
    """Create a partition: first as a table of its own, because attaching it locks less.

    Writers go on meanwhile. Only the default partition is locked, while it is searched for rows
    that belong here.
    """
    async with _brief_locks(pool) as conn:
        await conn.execute(f"create table {partition.name} (like {table.name} including all)")
        await conn.execute(
            f"alter table {table.name} attach partition {partition.name} "
            f"for values from ('{partition.first}') to ('{partition.end}')"
        )


async def drop(pool: Pool, partition: Partition) -> None:
    """Drop a partition. Its table is locked for a moment, the files are removed after that."""
    async with _brief_locks(pool) as conn:
        await conn.execute(f"drop table if exists {partition.name}")


async def delete_from_default(pool: Pool, table: PartitionedTable, end: str, limit: int) -> int:
    """Delete a batch of rows below an id from the default partition; return how many."""
    default, column = table.default, table.id_column
    status = await pool.execute(
        f"delete from {default} where ctid = any(array("  # noqa: S608  names of our own
        f"select ctid from {default} where {column} < $1 limit $2))",
        end,
        limit,
    )
    return int(status.rpartition(" ")[2])


@asynccontextmanager
async def _brief_locks(pool: Pool) -> AsyncIterator[Connection]:
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(f"set local lock_timeout = {int(LOCK_TIMEOUT * 1000)}")
        await conn.execute(f"set local statement_timeout = {int(STATEMENT_TIMEOUT * 1000)}")
        yield conn
