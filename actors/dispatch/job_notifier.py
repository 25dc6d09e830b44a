"""New jobs to the pools they belong to: one call under way per pool, the next gathers meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog

from actors.runtime.names import dispatch_pool_name
from core.dispatch.job import JobKey, JobRef, encode_job_refs

log = structlog.get_logger("dispatch")

NOTIFY_TIMEOUT = 5.0
BATCH_SIZE = 5_000
# What nobody takes is in Postgres: there is no need to remember more of it.
MAX_WAITING = 50_000

FindPool = Callable[[str], Awaitable[Any]]


class JobNotifier:
    """Tells pools what was stored for them. Whoever stored it does not wait."""

    def __init__(
        self,
        find: FindPool,
        forget: Callable[[str], None],
        mark_pending: Callable[[Sequence[JobKey]], Awaitable[None]],
    ) -> None:
        self._find = find
        self._forget = forget
        self._mark_pending = mark_pending
        self._waiting: dict[int, list[JobRef]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}

    def __call__(self, jobs: Mapping[int, Sequence[JobRef]]) -> None:
        """Hand these to their pools, soon."""
        for pool_no, job_refs in jobs.items():
            waiting = self._waiting.setdefault(pool_no, [])
            if len(waiting) < MAX_WAITING:
                waiting += job_refs
            if pool_no not in self._running:
                self._running[pool_no] = asyncio.create_task(self._drain(pool_no))

    async def close(self) -> None:
        """Tell what is left, briefly."""
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=1.0)
        for task in list(self._running.values()):
            task.cancel()

    async def _drain(self, pool_no: int) -> None:
        try:
            while jobs := self._waiting.get(pool_no):
                batch, self._waiting[pool_no] = jobs[:BATCH_SIZE], jobs[BATCH_SIZE:]
                await self._tell(pool_no, batch)
        finally:
            self._waiting.pop(pool_no, None)
            del self._running[pool_no]

    async def _tell(self, pool_no: int, jobs: list[JobRef]) -> None:
        name = dispatch_pool_name(pool_no)
        try:
            async with asyncio.timeout(NOTIFY_TIMEOUT):
                handle = await self._find(name)
                await handle.offer.remote(encode_job_refs(jobs))
        except Exception as error:  # whatever it was: the pool does not know of these
            log.warning("dispatch.pool_away", pool=pool_no, error=type(error).__name__)
            self._forget(name)
            try:
                await self._mark_pending([job.key for job in jobs])
            except Exception as broken:  # the pool's own look finds them, a little later
                log.warning("dispatch.not_marked", error=type(broken).__name__)
