"""Dispatch as one tenant may see it: its own pools, those that everybody shares, and its targets.

Of a shared pool, a tenant sees only its own jobs: how the last minutes went, what waits, and what
is under way. What the pool counts since its start includes all tenants: only the anchor sees it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import structlog

from core.dispatch.health import PoolHealth
from core.dispatch.job import ANCHOR
from core.dispatch.pool import PoolStatus
from core.shared.errors import UnavailableError
from serve_app.cluster_stats import ClusterStats
from services.shared.cache import Cache
from services.shared.database import Database
from services.shared.retry import log_outage
from storage.dispatch import pools, stats
from storage.dispatch.pools import PoolFilter, PoolRow
from storage.dispatch.stats import OutcomeCounts, QueueSize
from storage.operations import warnings
from storage.postgres.error_class import SERVER_ERRORS
from telemetry.registry import MetricsSnapshot

log = structlog.get_logger("dispatch_status")

DISPATCH_KIND = "dispatch"
# There are never as many: each is a process.
MAX_POOLS = 10_000
MAX_COUNT = 10_000
SIZES_TTL = 2.0
WARNINGS_TTL = 15.0
LONG_WINDOW_SECONDS, SHORT_WINDOW_SECONDS = 1_800.0, 300.0

Row = Mapping[str, Any]
Windows: TypeAlias = tuple[OutcomeCounts, OutcomeCounts]
AskPool = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """A pool with the last report of its actor, if there is one.

    Where it counts others' jobs as well (`is_lent`), the stats are what the tenant's own rows say.
    """

    row: PoolRow
    stats: Row
    is_up: bool
    is_lent: bool = False
    actor: str = ""
    looked_ago: float | None = None
    """Seconds before its last report that it looked for work; None if it does not answer."""

    @property
    def is_shared(self) -> bool:
        """Whether others use it, too."""
        return self.row.tenant == ANCHOR

    def vitals(self, open_breakers: int = 0) -> PoolHealth:
        window = self.stats.get("windows", {}).get("30", {})
        return PoolHealth(
            code=self.row.code,
            is_up=self.is_up,
            completed=window.get("completed", 0),
            failed=window.get("failed", 0),
            open_breakers=open_breakers,
        )


class DispatchStatusReader:
    """Reads the state of pools for one tenant at a time."""

    def __init__(
        self,
        cluster_stats: ClusterStats,
        database: Database,
        ask_pool: AskPool,
        now: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster_stats = cluster_stats
        self._database = database
        self._ask_pool = ask_pool
        self._now = now
        bounds: dict[str, Any] = {"monotonic": monotonic, "limit": 1_000}
        self._sizes = Cache(self._count, ttl=lambda _: SIZES_TTL, **bounds)
        self._windows = Cache(self._outcomes, ttl=lambda _: SIZES_TTL, **bounds)
        count_warnings = database.bind(warnings.count_open)
        self._warned = Cache(count_warnings, ttl=lambda _: WARNINGS_TTL, **bounds)

    async def pools(self, tenant: int, code: str | None = None) -> list[PoolSnapshot]:
        """Return the pools that a tenant's deliveries can be in, without archived ones."""
        rows = await self._database.query(pools.page, tenant, PoolFilter(), 0, MAX_POOLS)
        reported = {actor["stats"]["pool_no"]: actor for actor in await self._actors()}
        own = None if tenant == ANCHOR else await self._windows.get(tenant)
        return [
            _snapshot_of(row, reported.get(row.pool_no), own)
            for row in rows
            if row.status is not PoolStatus.ARCHIVED and code in {None, row.code, row.pool_id}
        ]

    async def sizes(self, tenant: int) -> dict[int, QueueSize]:
        """How much a tenant has in each pool; not older than a moment."""
        return await self._sizes.get(tenant)

    async def recent_warnings(self, tenant: int) -> int:
        """How many open warnings came in the last half hour."""
        counts = await self._database.query(warnings.count_recent, tenant, LONG_WINDOW_SECONDS)
        return counts.get(tenant, 0)

    async def query(
        self, pools: list[PoolSnapshot], question: str, *args: Any
    ) -> list[tuple[PoolSnapshot, Any]]:
        """Ask these pools for their state; leave out those that do not answer."""
        answers = await asyncio.gather(
            *(self._ask_one(pool, question, *args) for pool in pools if pool.is_up)
        )
        return [one for one in answers if one is not None]

    async def extend_snapshot(self, snapshot: MetricsSnapshot, tenant: int) -> MetricsSnapshot:
        """Return the snapshot with the fields that only this tenant may see."""
        try:
            return replace(snapshot, warnings=await self._warned.get(tenant))
        except SERVER_ERRORS as error:
            log_outage(error, who="dispatch_status")
            return snapshot

    async def _ask_one(
        self, pool: PoolSnapshot, question: str, *args: Any
    ) -> tuple[PoolSnapshot, Any] | None:
        try:
            return pool, await self._ask_pool(pool.row.pool_no, question, *args)
        except UnavailableError:
            log.warning("dispatch_status.pool_away", pool=pool.row.pool_no)
            return None

    async def _actors(self) -> list[Row]:
        actors = await self._cluster_stats.actors() or ()
        return [one for one in actors if one.get("kind") == DISPATCH_KIND and "stats" in one]

    async def _outcomes(self, tenant: int) -> dict[int, Windows]:
        now = self._now()
        return await self._database.query(
            stats.recent_outcomes,
            tenant,
            now - LONG_WINDOW_SECONDS,
            now - SHORT_WINDOW_SECONDS,
            MAX_COUNT,
        )

    async def _count(self, tenant: int) -> dict[int, QueueSize]:
        numbers = [pool.row.pool_no for pool in await self.pools(tenant)]
        return await self._database.query(stats.queue_sizes, tenant, numbers, MAX_COUNT)


def _snapshot_of(
    row: PoolRow, actor: Row | None, own: Mapping[int, Windows] | None
) -> PoolSnapshot:
    is_up = actor is not None and bool(actor.get("alive"))
    if row.tenant == ANCHOR and own is not None:
        recent, lately = own.get(row.pool_no, (OutcomeCounts(), OutcomeCounts()))
        stats = {"windows": {"30": recent._asdict(), "5": lately._asdict()}, **recent._asdict()}
        observed = PoolSnapshot(row, stats, is_up, is_lent=True)
    else:
        observed = PoolSnapshot(row, {} if actor is None else actor["stats"], is_up)
    if actor is None or not is_up:
        return observed
    return replace(observed, actor=actor["name"], looked_ago=actor["stats"].get("looked_ago"))
