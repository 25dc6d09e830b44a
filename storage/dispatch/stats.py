"""Sizes of delivery backlogs, counted up to a limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.shared.tsid import first_at
from storage.postgres.bounded_scan import SCAN_LIMIT
from storage.postgres.pool import Pool
from storage.postgres.queries import Q


class BacklogRow(NamedTuple):
    """The waiting jobs of a tenant in a pool."""

    pool_no: int
    code: str
    tenant: int
    jobs: int


class BlockedRow(NamedTuple):
    """The blocked groups of a tenant in a pool, and the name of one."""

    tenant: int
    code: str
    groups: int
    example: str


@dataclass(frozen=True, slots=True)
class QueueSize:
    """A tenant's jobs in a pool."""

    under_way: int = 0
    delayed: int = 0
    ready: int = 0


class OutcomeCounts(NamedTuple):
    """How deliveries ended."""

    completed: int = 0
    failed: int = 0


async def backlogs(pool: Pool, most: int) -> list[BacklogRow]:
    """Count the waiting jobs by pool and tenant."""
    return [BacklogRow(*row) for row in await pool.fetch(Q["backlogs"], most)]


async def blocked(pool: Pool, most: int) -> list[BlockedRow]:
    """Count the groups that a failed job blocks, by tenant and pool."""
    return [BlockedRow(*row) for row in await pool.fetch(Q["blocked_groups"], most, SCAN_LIMIT)]


async def queue_sizes(
    pool: Pool, tenant: int, pools: Sequence[int], most: int
) -> dict[int, QueueSize]:
    """Count a tenant's jobs in each of these pools."""
    rows = await pool.fetch(Q["queue_sizes"], tenant, list(pools), most, SCAN_LIMIT)
    return {
        row["pool_no"]: QueueSize(row["under_way"], row["delayed"], row["ready"]) for row in rows
    }


async def recent_outcomes(
    pool: Pool, tenant: int, since: float, lately: float, most: int
) -> dict[int, tuple[OutcomeCounts, OutcomeCounts]]:
    """Count a tenant's ended jobs by pool: created after `since`, and after `lately`."""
    rows = await pool.fetch(Q["recent_outcomes"], tenant, first_at(since), first_at(lately), most)
    return {
        row["pool_no"]: (
            OutcomeCounts(row["completed"], row["failed"]),
            OutcomeCounts(row["lately_completed"], row["lately_failed"]),
        )
        for row in rows
    }
