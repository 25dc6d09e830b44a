"""Dispatch pools: a tenant's own, and those of the anchor that everybody may use."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

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
class PoolRow:
    """A pool as it is kept."""

    pool_no: int
    tenant: int
    pool_id: str
    code: str
    name: str
    description: str | None
    rate_limit: int | None
    """Deliveries a minute; None: as many as there are."""
    concurrency: int
    status: PoolStatus
    application: str | None = None
    """Which application declares it, if one does."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_anchors(self) -> bool:
        """Whether it is the anchor's, which every tenant may use."""
        return self.tenant == ANCHOR

    @property
    def is_default(self) -> bool:
        """Whether it takes what names no pool."""
        return self.is_anchors and self.code == DEFAULT_POOL


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPool:
    """A pool to make."""

    pool_id: str
    code: str
    name: str
    description: str | None = None
    rate_limit: int | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    application: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFilter:
    """Which pools are meant; None leaves a filter off."""

    status: PoolStatus | None = None
    is_anchors: bool | None = None


PoolEdit = Callable[[PoolRow], PoolRow]


async def all_open(pool: Pool) -> list[PoolRow]:
    """Every pool of every tenant that is not archived."""
    return [_row(row) for row in await pool.fetch(Q["open_pools"])]


async def read_no(pool: Pool, pool_no: int) -> PoolRow | None:
    """One pool by its number."""
    row = await pool.fetchrow(Q["read_pool_no"], pool_no)
    return _row(row) if row else None


async def read(pool: Pool, tenant: int, name: str) -> PoolRow | None:
    """One pool by its code or id, archived or not: the tenant's own, else the anchor's."""
    row = await pool.fetchrow(Q["read_pool"], tenant, name)
    return _row(row) if row else None


async def find(pool: Pool, tenant: int, code: str) -> PoolRow | None:
    """Where a tenant's deliveries go that name this code or id: its own pool, else the anchor's.

    A pool that is archived takes none.
    """
    row = await pool.fetchrow(Q["find_pool"], tenant, code)
    return _row(row) if row else None


async def page(
    pool: Pool, tenant: int, chosen: PoolFilter, after: int, limit: int
) -> list[PoolRow]:
    """The next pools of a listing, in the order they were made."""
    rows = await pool.fetch(Q["list_pools"], tenant, after, chosen.status, chosen.is_anchors, limit)
    return [_row(row) for row in rows]


async def count(pool: Pool, tenant: int, chosen: PoolFilter) -> int:
    """How many such a listing has in all."""
    total: int = await pool.fetchval(Q["count_pools"], tenant, chosen.status, chosen.is_anchors)
    return total


async def create(pool: Pool, tenant: int, new: NewPool, most: int) -> PoolRefusal | PoolRow:
    """Make a pool, unless all tenants together have `most` already, or this one half of it."""
    async with pool.acquire() as conn, conn.transaction():
        await lock_count(conn)
        made = await add(conn, tenant, new, most)
        if isinstance(made, PoolRow):
            await change_notifications.notify(conn, ChangeTopic.POOLS)
        return made


async def add(conn: Connection, tenant: int, new: NewPool, most: int) -> PoolRefusal | PoolRow:
    """The same, in a transaction of the caller's that has the lock, and tells others."""
    refusal = refuse_code(new.code, is_anchors=tenant == ANCHOR)
    if refusal is not None:
        return refusal
    refusal = await refuse_one_more(conn, tenant, most)
    if refusal is not None:
        return refusal
    pool_no = await conn.fetchval(
        Q["create_pool"],
        tenant,
        new.pool_id,
        new.code,
        new.name,
        new.description,
        new.rate_limit,
        new.concurrency,
        new.application,
    )
    if pool_no is None:
        return PoolRefusal.CODE_EXISTS
    return _row(await conn.fetchrow(Q["read_pool_no"], pool_no))


async def change(pool: Pool, tenant: int, name: str, edit: PoolEdit) -> PoolRefusal | PoolRow:
    """Give a pool of one's own other values."""
    async with _held(pool, tenant, name) as (conn, current):
        if isinstance(current, PoolRefusal):
            return current
        refusal = refuse_change(current.status)
        return refusal or await save(conn, edit(current))


async def suspend(pool: Pool, tenant: int, name: str) -> PoolRefusal | PoolRow:
    """Let a pool wait; what it has begun it ends."""
    return await change(
        pool, tenant, name, lambda current: replace(current, status=PoolStatus.SUSPENDED)
    )


async def activate(pool: Pool, tenant: int, name: str, most: int) -> PoolRefusal | PoolRow:
    """Let a pool deliver again; one that was archived needs a place among `most`."""
    async with _held(pool, tenant, name, counting=True) as (conn, current):
        if isinstance(current, PoolRefusal):
            return current
        if current.status is PoolStatus.ARCHIVED:
            refusal = await refuse_one_more(conn, tenant, most)
            if refusal is not None:
                return refusal
        return await save(conn, replace(current, status=PoolStatus.ACTIVE))


async def archive(pool: Pool, tenant: int, name: str) -> PoolRefusal | PoolRow:
    """Put a pool out of use, unless somebody needs it."""
    async with _held(pool, tenant, name) as (conn, current):
        if isinstance(current, PoolRefusal):
            return current
        return await archive_locked(conn, current)


async def archive_locked(conn: Connection, current: PoolRow) -> PoolRefusal | PoolRow:
    """The same, in a transaction of the caller's that holds the pool."""
    used = await conn.fetchrow(Q["pool_is_used"], current.pool_no)
    refusal = refuse_archive(
        current.status,
        is_default=current.is_default,
        is_used=used is not None and (used["subscribed"] or used["busy"]),
    )
    return refusal or await save(conn, replace(current, status=PoolStatus.ARCHIVED))


async def lock_for_update(conn: Connection, tenant: int, name: str) -> PoolRow | None:
    """A pool of one's own that nobody else changes before the transaction ends."""
    row = await conn.fetchrow(Q["hold_pool"], tenant, name)
    return _row(row) if row else None


async def save(conn: Connection, pool_row: PoolRow) -> PoolRow:
    """Store what a held pool has become, and tell others."""
    await conn.execute(
        Q["save_pool"],
        pool_row.pool_no,
        pool_row.name,
        pool_row.description,
        pool_row.rate_limit,
        pool_row.concurrency,
        pool_row.status,
    )
    await change_notifications.notify(conn, ChangeTopic.POOLS)
    return _row(await conn.fetchrow(Q["read_pool_no"], pool_row.pool_no))


async def declared(conn: Connection, tenant: int, application: str) -> list[str]:
    """The codes of what an application declared."""
    rows = await conn.fetch(Q["application_pools"], tenant, application)
    return [row["code"] for row in rows]


async def lock_count(conn: Connection) -> None:
    """Nobody else makes a pool before the transaction ends. Comes before a pool is held."""
    await conn.execute(Q["lock_pool_count"])


@asynccontextmanager
async def _held(
    pool: Pool, tenant: int, name: str, *, counting: bool = False
) -> AsyncIterator[tuple[Connection, PoolRow | PoolRefusal]]:
    async with pool.acquire() as conn, conn.transaction():
        if counting:
            await lock_count(conn)
        current = await lock_for_update(conn, tenant, name)
        if current is None:
            shared = await conn.fetchrow(Q["read_pool"], tenant, name)
            yield conn, PoolRefusal.ANCHORS_POOL if shared else PoolRefusal.POOL_NOT_FOUND
        else:
            yield conn, current


async def refuse_one_more(conn: Connection, tenant: int, most: int) -> PoolRefusal | None:
    """Why a tenant cannot have one more, in a transaction that has the lock."""
    row = await conn.fetchrow(Q["count_open_pools"], tenant)
    total, own = (0, 0) if row is None else (row["total"], row["own"])
    return refuse_beyond_limit(total, own, most=most, is_anchors=tenant == ANCHOR)


def _row(row: asyncpg.Record | None) -> PoolRow:
    if row is None:
        raise LookupError("a pool that was there a moment ago in the same transaction")
    return PoolRow(
        pool_no=row["pool_no"],
        tenant=row["tenant_id"],
        pool_id=row["pool_id"],
        code=row["code"],
        name=row["name"],
        description=row["description"],
        rate_limit=row["rate_limit"],
        concurrency=row["concurrency"],
        status=PoolStatus(row["status"]),
        application=row["application"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
