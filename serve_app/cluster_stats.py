"""Cached counts of rows and of all actors; rows of large tables are counted by a sample."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from ray.exceptions import RayError

from actors.client import ActorClient
from core.shared.errors import TransientError
from services.shared.cache import Cache
from services.shared.retry import log_outage
from storage.postgres.error_class import SERVER_ERRORS
from storage.waits import inbox, waits
from telemetry.registry import MetricsSnapshot

COUNTS_TTL = 15.0
REPORT_TTL = 0.5
REPORT_TIMEOUT = 2.0

Report = Mapping[str, Any]
Counts = tuple[dict[str, int], dict[tuple[str, str], int]]

# The errors of a call to a supervisor that does not answer.
SUPERVISOR_ERRORS = (RayError, TransientError, TimeoutError, ValueError)

log = structlog.get_logger("cluster_stats")


class ClusterStats:
    """Collects the numbers of /metrics, /api/status and the health page."""

    def __init__(
        self, client: ActorClient, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._counts = Cache(self._count, ttl=lambda _: COUNTS_TTL, monotonic=monotonic, limit=1)
        self._reports = Cache(self._ask, ttl=lambda _: REPORT_TTL, monotonic=monotonic, limit=1)

    async def report(self) -> Report:
        """Return the supervisor's report; raise TimeoutError if it does not answer."""
        return await self._reports.get("report")

    async def snapshot(self) -> MetricsSnapshot:
        """Collect the numbers for one scrape; parts that are down are left out."""
        actors, counts = await asyncio.gather(self.actors(), self._counts_or_none())
        waits_by_status, parked = counts or (None, None)
        return MetricsSnapshot(actors=actors or (), waits=waits_by_status, inbox=parked)

    async def actors(self) -> tuple[Report, ...] | None:
        """Return the actors of the supervisor's report; None if it does not answer."""
        try:
            return tuple((await self.report())["actors"])
        except SUPERVISOR_ERRORS as error:
            log.warning("cluster_stats.supervisor_away", error=type(error).__name__)
            return None

    async def _counts_or_none(self) -> Counts | None:
        try:
            return await self._counts.get("counts")
        except SERVER_ERRORS as error:
            log_outage(error, who="cluster_stats")
            return None

    async def _count(self, _: str) -> Counts:
        pool = self._client.listing_pool
        async with asyncio.timeout(self._client.config.request_timeout):
            return await waits.count_by_status(pool), await inbox.count_by_verdict(pool)

    async def _ask(self, _: str) -> Report:
        return await asyncio.wait_for(self._client.report(), REPORT_TIMEOUT)


class RateMeter:
    """Measures how fast a counter grows."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, float] | None = None
        self._rate = 0.0

    def update(self, count: float) -> float:
        """Return the growth per second; measure again if the last time is a second ago."""
        now = self._monotonic()
        if self._last is None:
            self._last = (now, count)
        elif now - self._last[0] >= 1.0:
            # A counter that shrank belongs to a restarted process.
            grown = max(0.0, count - self._last[1])
            self._rate = grown / (now - self._last[0])
            self._last = (now, count)
        return self._rate
