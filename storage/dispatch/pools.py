"""Dispatch pools in Postgres: a tenant's own, and the anchor's, which every tenant may use."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from core.dispatch.job import ANCHOR
from core.dispatch.pool import (
    DEFAULT_CONCURRENCY,
    DEFAULT_POOL,
    PoolRefusal,
    PoolStatus,
    refuse_archive,
    refuse_change,
    refuse_code,
)
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.postgres.table import CountLimit, Table


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
        return self.is_anchors and self.code == DEFAULT_POOL


class PoolFilter(NamedTuple):
    """Which pools a listing shows; None leaves a filter off."""

    status: PoolStatus | None = None
    is_anchors: bool | None = None


_table = Table(
    noun="pool",
    table="dispatch_pools",
    row_type=PoolRow,
    new_type=NewPool,
    key="pool_no",
    saved=("name", "description", "rate_limit", "concurrency", "status"),
    filters={"status": "status = :status", "is_anchors": "(tenant_id = 0) = :is_anchors"},
    topic=ChangeTopic.POOLS,
    not_found=PoolRefusal.POOL_NOT_FOUND,
    not_own=PoolRefusal.ANCHORS_POOL,
)
_limit = CountLimit("count_open_pools", AdvisoryLock.POOLS, PoolRefusal.POOL_LIMIT)
read, page, count = _table.read, _table.page, _table.count
lock_for_update, save = _table.lock, _table.save
lock_count, refuse_one_more = _limit.lock, _limit.refuse_one_more


async def all_open(pool: Pool) -> list[PoolRow]:
    """Read every pool of every tenant that is not archived."""
    return await _table.all(pool, "open_pools")


async def read_no(pool: Pool, pool_no: int) -> PoolRow | None:
    return await _table.first(pool, "read_pool_no", pool_no)


async def find(pool: Pool, tenant: int, name: str) -> PoolRow | None:
    """Read the pool that a tenant's deliveries go to: as `read`, but none that is archived."""
    return await _table.first(pool, "find_pool", tenant, name)


async def create(pool: Pool, tenant: int, new: NewPool, limit: int) -> PoolRefusal | PoolRow:
    """Create a pool, unless all tenants have `limit` pools, or this tenant half of it."""
    async with pool.acquire() as conn, conn.transaction():
        await lock_count(conn)
        return await add(conn, tenant, new, limit)


async def add(conn: Connection, tenant: int, new: NewPool, limit: int) -> PoolRefusal | PoolRow:
    """Create a pool in a transaction that has locked the count."""
    refusal = refuse_code(new.code, is_anchors=tenant == ANCHOR)
    refusal = refusal or await refuse_one_more(conn, tenant, limit)
    return refusal or await _table.add(conn, tenant, new) or PoolRefusal.CODE_EXISTS


async def change(
    pool: Pool, tenant: int, name: str, edit: Callable[[PoolRow], PoolRow]
) -> PoolRefusal | PoolRow:
    async def step(conn: Connection, row: PoolRow) -> PoolRefusal | PoolRow:
        return refuse_change(row.status) or await save(conn, edit(row))

    return await _table.update(pool, tenant, name, step)


async def suspend(pool: Pool, tenant: int, name: str) -> PoolRefusal | PoolRow:
    return await change(pool, tenant, name, lambda row: replace(row, status=PoolStatus.SUSPENDED))


async def activate(pool: Pool, tenant: int, name: str, limit: int) -> PoolRefusal | PoolRow:
    """Activate a pool; an archived one counts among `limit` again."""

    async def step(conn: Connection, row: PoolRow) -> PoolRefusal | PoolRow:
        is_back = row.status is PoolStatus.ARCHIVED
        refusal = await refuse_one_more(conn, tenant, limit) if is_back else None
        return refusal or await save(conn, replace(row, status=PoolStatus.ACTIVE))

    return await _table.update(pool, tenant, name, step, lock_count)


async def archive(pool: Pool, tenant: int, name: str) -> PoolRefusal | PoolRow:
    return await _table.update(pool, tenant, name, archive_locked)


async def archive_locked(conn: Connection, row: PoolRow) -> PoolRefusal | PoolRow:
    is_used = await conn.fetchval(Q["pool_is_used"], row.pool_no)
    refusal = refuse_archive(row.status, is_default=row.is_default, is_used=is_used)
    return refusal or await save(conn, replace(row, status=PoolStatus.ARCHIVED))
