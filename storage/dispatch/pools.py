"""Dispatch pools in Postgres: a tenant's own, and the anchor's, which every tenant may use."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import asyncpg

from core.dispatch.job import ANCHOR
from core.dispatch.pool import (
    DEFAULT_CONCURRENCY,
    DEFAULT_POOL,
    PoolRefusal,
    PoolStatus,
    refuse_archive,
    refuse_beyond_limit,
    refuse_change,
    refuse_code,
)
from storage.postgres import change_notifications
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPool:
    """A pool to create. A rate limit counts deliveries a minute; None is no limit."""

    pool_id: str
    code: str
    name: str
    description: str | None = None
    rate_limit: int | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    application: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow(NewPool):
    """A stored pool."""

    pool_no: int
    tenant: int
    status: PoolStatus
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_anchors(self) -> bool:
        return self.tenant == ANCHOR

    @property
    def is_default(self) -> bool:
        """Return whether deliveries that name no pool go here."""
        return self.is_anchors and self.code == DEFAULT_POOL


class PoolFilter(NamedTuple):
    """Which pools a listing shows; None leaves a filter off."""

    status: PoolStatus | None = None
    is_anchors: bool | None = None


async def all_open(pool: Pool) -> list[PoolRow]:
    """Read every pool of every tenant that is not archived."""
    return [_row(row) for row in await pool.fetch(Q["open_pools"])]


async def read_no(pool: Pool, pool_no: int) -> PoolRow | None:
    row = await pool.fetchrow(Q["read_pool_no"], pool_no)
    return _row(row) if row else None


async def read(pool: Pool | Connection, tenant: int, name: str) -> PoolRow | None:
    """Read a pool by its code or id, archived or not: the tenant's own, else the anchor's."""
    row = await pool.fetchrow(Q["read_pool"], tenant, name, True)
    return _row(row) if row else None


async def find(pool: Pool, tenant: int, name: str) -> PoolRow | None:
    """Read the pool that a tenant's deliveries go to: as `read`, but none that is archived."""
    row = await pool.fetchrow(Q["read_pool"], tenant, name, False)
    return _row(row) if row else None


async def page(
    pool: Pool, tenant: int, wanted: PoolFilter, after: int, limit: int
) -> list[PoolRow]:
    return [_row(row) for row in await pool.fetch(Q["list_pools"], tenant, after, *wanted, limit)]


async def count(pool: Pool, tenant: int, wanted: PoolFilter) -> int:
    total: int = await pool.fetchval(Q["count_pools"], tenant, *wanted)
    return total


async def create(pool: Pool, tenant: int, new: NewPool, limit: int) -> PoolRefusal | PoolRow:
    """Create a pool, unless all tenants have `limit` pools, or this tenant half of it."""
    async with pool.acquire() as conn, conn.transaction():
        await lock_count(conn)
        return await add(conn, tenant, new, limit)


async def add(conn: Connection, tenant: int, new: NewPool, limit: int) -> PoolRefusal | PoolRow:
    """Create a pool in a transaction that has locked the count."""
    refusal = refuse_code(new.code, is_anchors=tenant == ANCHOR)
    refusal = refusal or await refuse_one_more(conn, tenant, limit)
    if refusal is not None:
        return refusal
    limits = (new.rate_limit, new.concurrency, new.application)
    named = (new.pool_id, new.code, new.name, new.description)
    row = await conn.fetchrow(Q["create_pool"], tenant, *named, *limits)
    if row is None:
        return PoolRefusal.CODE_EXISTS
    await change_notifications.notify(conn, ChangeTopic.POOLS)
    return _row(row)


async def change(
    pool: Pool, tenant: int, name: str, edit: Callable[[PoolRow], PoolRow]
) -> PoolRefusal | PoolRow:
    """Change one of the tenant's own pools."""
    async with _locked(pool, tenant, name) as (conn, current):
        if isinstance(current, PoolRefusal):
            return current
        return refuse_change(current.status) or await save(conn, edit(current))


async def suspend(pool: Pool, tenant: int, name: str) -> PoolRefusal | PoolRow:
    return await change(pool, tenant, name, lambda row: replace(row, status=PoolStatus.SUSPENDED))


async def activate(pool: Pool, tenant: int, name: str, limit: int) -> PoolRefusal | PoolRow:
    """Activate a pool; an archived one counts among `limit` again."""
    async with _locked(pool, tenant, name, counting=True) as (conn, current):
        if isinstance(current, PoolRefusal):
            return current
        is_new = current.status is PoolStatus.ARCHIVED
        refusal = await refuse_one_more(conn, tenant, limit) if is_new else None
        return refusal or await save(conn, replace(current, status=PoolStatus.ACTIVE))


async def archive(pool: Pool, tenant: int, name: str) -> PoolRefusal | PoolRow:
    async with _locked(pool, tenant, name) as (conn, current):
        return current if isinstance(current, PoolRefusal) else await archive_locked(conn, current)


async def archive_locked(conn: Connection, current: PoolRow) -> PoolRefusal | PoolRow:
    is_used = await conn.fetchval(Q["pool_is_used"], current.pool_no)
    refusal = refuse_archive(current.status, is_default=current.is_default, is_used=is_used)
    return refusal or await save(conn, replace(current, status=PoolStatus.ARCHIVED))


async def lock_for_update(conn: Connection, tenant: int, name: str) -> PoolRow | None:
    """Lock one of the tenant's own pools until the transaction ends."""
    row = await conn.fetchrow(Q["hold_pool"], tenant, name)
    return _row(row) if row else None


async def lock_count(conn: Connection) -> None:
    """Keep others from creating pools until the transaction ends; goes before locking a pool."""
    await conn.execute(Q["lock_pool_count"])


async def refuse_one_more(conn: Connection, tenant: int, limit: int) -> PoolRefusal | None:
    """Return why the tenant cannot have one more pool; the count must be locked."""
    (row,) = await conn.fetch(Q["count_open_pools"], tenant)
    return refuse_beyond_limit(*row, limit=limit, is_anchors=tenant == ANCHOR)


async def save(conn: Connection, row: PoolRow) -> PoolRow:
    """Store a locked pool, and notify its actor."""
    fields = (row.name, row.description, row.rate_limit, row.concurrency, row.status)
    (saved,) = await conn.fetch(Q["save_pool"], row.pool_no, *fields)
    await change_notifications.notify(conn, ChangeTopic.POOLS)
    return _row(saved)


@asynccontextmanager
async def _locked(
    pool: Pool, tenant: int, name: str, *, counting: bool = False
) -> AsyncIterator[tuple[Connection, PoolRow | PoolRefusal]]:
    async with pool.acquire() as conn, conn.transaction():
        if counting:
            await lock_count(conn)
        current = await lock_for_update(conn, tenant, name)
        is_shared = current is None and await read(conn, tenant, name) is not None
        missing = PoolRefusal.ANCHORS_POOL if is_shared else PoolRefusal.POOL_NOT_FOUND
        yield conn, current or missing


def _row(row: asyncpg.Record) -> PoolRow:
    return PoolRow(**{**row, "status": PoolStatus(row["status"])})
