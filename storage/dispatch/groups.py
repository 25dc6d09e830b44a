"""Message groups: the state of each, its waiting jobs, and who has parked it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import asyncpg
import msgspec

from core.dispatch.groups import GroupMember
from storage.postgres.bounded_scan import SCAN_LIMIT
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

MAX_PARKED = 1_000
"""Parked groups of one tenant in one pool, which keeps all of them in memory."""


class GroupSelection(StrEnum):
    """Which groups a listing shows; an index serves each choice."""

    ALL = "walk_groups"
    FAILED = "failed_groups"
    PARKED = "list_parked"


class PoolGroupKey(NamedTuple):
    """Identifies a group within a tenant: the same name in two pools is two groups."""

    pool_no: int
    name: str


START = PoolGroupKey(-1, "")


class GroupPosition(NamedTuple):
    """The position of a job in its group."""

    sequence: int
    position: int


FRONT = GroupPosition(-(2**31), -1)


@dataclass(frozen=True, slots=True)
class Parking:
    """Who parked a group, and why."""

    reason: str | None
    parked_by: str
    parked_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group and its first jobs. `waiting` counts jobs to be delivered, up to a limit.

    `failed` is the first failed job that blocks on error; if none blocks, the first failed job.
    """

    place: PoolGroupKey
    pool_id: str
    pool_code: str
    waiting: int
    parking: Parking | None = None
    next_up: GroupMember | None = None
    failed: GroupMember | None = None


async def list_keys(
    pool: Pool,
    tenant: int,
    selection: GroupSelection,
    pools: Sequence[int],
    after: PoolGroupKey,
    limit: int,
) -> list[PoolGroupKey]:
    """Read the keys of the next groups, by pool and name."""
    more = (SCAN_LIMIT,) if selection is GroupSelection.FAILED else ()
    rows = await pool.fetch(Q[selection.value], tenant, *after, sorted(pools), limit, *more)
    return [PoolGroupKey(*row) for row in rows]


async def read(
    pool: Pool, tenant: int, places: Sequence[PoolGroupKey], count_to: int
) -> list[Group]:
    """Read the current state of these groups, in their order."""
    pools, names = [one.pool_no for one in places], [one.name for one in places]
    fronts = await pool.fetch(Q["group_fronts"], tenant, pools, names)
    members = {
        (row["place"], row["failed"]): msgspec.convert(dict(row), GroupMember) for row in fronts
    }
    sizes = await pool.fetch(Q["group_sizes"], tenant, pools, names, count_to)
    return [
        Group(
            place=places[row["place"] - 1],
            pool_id=row["pool_id"],
            pool_code=row["pool_code"],
            waiting=row["waiting"],
            parking=_parking(row),
            next_up=members.get((row["place"], False)),
            failed=members.get((row["place"], True)),
        )
        for row in sizes
    ]


async def find_keys(pool: Pool, tenant: int, name: str, pools: Sequence[int]) -> list[PoolGroupKey]:
    """Return the keys of the groups of this name that have jobs or are parked."""
    rows = await pool.fetch(Q["places_of_group"], tenant, name, list(pools))
    return [PoolGroupKey(row["pool_no"], name) for row in rows]


async def list_jobs(
    pool: Pool, tenant: int, group: PoolGroupKey, after: GroupPosition, limit: int
) -> list[tuple[str, GroupPosition]]:
    """Read the ids and positions of a group's unfinished jobs, in order."""
    rows = await pool.fetch(
        Q["jobs_behind"], tenant, group.pool_no, group.name, after.sequence, after.position, limit
    )
    return [(row["job_id"], GroupPosition(row["sequence"], row["position"])) for row in rows]


async def park(
    pool: Pool, tenant: int, group: PoolGroupKey, reason: str | None, parked_by: str
) -> bool:
    """Park a group; return False if too many are parked. The caller notifies the pool."""
    args = (group.pool_no, tenant, group.name, reason, parked_by, MAX_PARKED)
    return await pool.fetchval(Q["park_group"], *args) is not None


async def unpark(pool: Pool, tenant: int, group: PoolGroupKey) -> bool:
    """Unpark a group; return False if it was not parked."""
    return await pool.fetchval(Q["unpark_group"], group.pool_no, tenant, group.name) is not None


def _parking(row: asyncpg.Record) -> Parking | None:
    if row["parked_at"] is None:
        return None
    return Parking(row["reason"], row["parked_by"], row["parked_at"])
