"""New jobs to the pools they belong to: one call under way per pool, the next gathers meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog

from actors.runtime.names import dispatch_pool
from core.dispatch.job import JobKey, Pointer, encode_pointers

log = structlog.get_logger("dispatch")

WITHIN = 5.0
AT_ONCE = 5_000
# What nobody takes is in Postgres: there is no need to remember more of it.
MOST = 50_000

Find = Callable[[str], Awaitable[Any]]


class HandOver:
    """Tells pools what was stored for them. Whoever stored it does not wait."""

    def __init__(
        self,
        find: Find,
        forget: Callable[[str], None],
        mark_pending: Callable[[Sequence[JobKey]], Awaitable[None]],
    ) -> None:
        self._find = find
        self._forget = forget
        self._mark_pending = mark_pending
        self._waiting: dict[int, list[Pointer]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}

    def __call__(self, jobs: Mapping[int, Sequence[Pointer]]) -> None:
        """Hand these to their pools, soon."""
        for pool_no, pointers in jobs.items():
            waiting = self._waiting.setdefault(pool_no, [])
            if len(waiting) < MOST:
                waiting += pointers
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
                batch, self._waiting[pool_no] = jobs[:AT_ONCE], jobs[AT_ONCE:]
                await self._tell(pool_no, batch)
        finally:
            self._waiting.pop(pool_no, None)
            del self._running[pool_no]

    async def _tell(self, pool_no: int, jobs: list[Pointer]) -> None:
        name = dispatch_pool(pool_no)
        try:
            async with asyncio.timeout(WITHIN):
                handle = await self._find(name)
                await handle.offer.remote(encode_pointers(jobs))
        except Exception as error:  # whatever it was: the pool does not know of these
            log.warning("dispatch.pool_away", pool=pool_no, error=type(error).__name__)
            self._forget(name)
            try:
                await self._mark_pending([job.key for job in jobs])
            except Exception as broken:  # the pool's own look finds them, a little later
                log.warning("dispatch.not_marked", error=type(broken).__name__)
