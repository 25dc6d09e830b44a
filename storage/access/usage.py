"""Counters of what tenants have stored, and the quotas set for single tenants."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from core.access.usage_counter import UsageCounts
from core.shared.quotas import Quota, StorageUsage, StoredKind
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class UsageDay:
    """The current day of the counters, and the seconds until it ends."""

    day: date
    seconds_left: float


@dataclass(frozen=True, slots=True)
class UsageSums:
    rows: int = 0
    bytes: int = 0


@dataclass(slots=True)
class UsageReading:
    today: UsageDay
    stored_today: dict[int, UsageSums] = field(default_factory=dict)
    own_quotas: dict[int, Mapping[str, int]] = field(default_factory=dict)


async def add(conn: Connection | Pool, counts: UsageCounts) -> None:
    if counts:
        await conn.execute(
            Q["add_usage"],
            [tenant for tenant, _ in counts],
            [kind.value for _, kind in counts],
            [rows for rows, _ in counts.values()],
            [size for _, size in counts.values()],
        )


async def read_today(pool: Pool, tenants: Sequence[int]) -> UsageReading:
    """Read what changes often: what was stored today, and quotas set for single tenants."""
    async with pool.acquire() as conn:
        ((day, seconds_left),) = await conn.fetch(Q["today"])
        reading = UsageReading(UsageDay(day, seconds_left))
        for row in await conn.fetch(Q["usage_today"], list(tenants)):
            reading.stored_today[row["tenant_id"]] = UsageSums(row["row_count"], row["byte_count"])
        for row in await conn.fetch(Q["own_quotas"], list(tenants)):
            reading.own_quotas[row["tenant_id"]] = json.loads(row["quotas"])
        return reading


async def read_before_today(
    pool: Pool, tenants: Sequence[int], days_kept: Mapping[StoredKind, int]
) -> dict[int, UsageSums]:
    """Read what tenants stored before today and within retention."""
    kinds, days = [kind.value for kind in days_kept], list(days_kept.values())
    rows = await pool.fetch(Q["usage_before_today"], list(tenants), kinds, days)
    return {row["tenant_id"]: UsageSums(row["row_count"], row["byte_count"]) for row in rows}


def usage_of(today: UsageSums, before: UsageSums) -> StorageUsage:
    """Combine both sums into the usage that quotas limit."""
    return StorageUsage(
        rows_per_day=today.rows,
        bytes_per_day=today.bytes,
        stored_rows=max(0, before.rows + today.rows),
        stored_bytes=max(0, before.bytes + today.bytes),
    )


async def count(pool: Pool, tenant: int, quota: Quota, most: int) -> int:
    """Count a tenant's objects that a quota limits, up to `most`."""
    return int(await pool.fetchval(Q[f"quota_{quota.value}"], tenant, most))


async def count_known(pool: Pool, tenant: int, quota: Quota, names: Sequence[str]) -> int:
    """Count how many of these names a tenant already has."""
    return int(await pool.fetchval(Q[f"known_{quota.value}"], tenant, list(names)))


async def own_quotas(pool: Pool, tenant: int) -> Mapping[str, int]:
    rows = await pool.fetch(Q["own_quotas"], [tenant])
    own: Mapping[str, int] = json.loads(rows[0]["quotas"]) if rows else {}
    return own


async def set_quota(pool: Pool, slug: str, quota: Quota, limit: int) -> bool:
    """Set a quota for one tenant; return False if there is no such tenant."""
    return await pool.fetchval(Q["set_quota"], slug, quota.value, limit) is not None


async def clear_quota(pool: Pool, slug: str, quota: Quota) -> bool:
    """Restore the default quota of a tenant; return False if there is no such tenant."""
    return await pool.fetchval(Q["clear_quota"], slug, quota.value) is not None


async def forget(pool: Pool, days: int) -> None:
    """Delete the counters of days longer ago than this."""
    await pool.execute(Q["forget_usage"], days)
