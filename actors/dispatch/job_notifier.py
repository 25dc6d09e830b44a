"""Hands new jobs to their dispatch pools, with one call per pool at a time."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog

from actors.runtime.names import dispatch_pool_name
from core.dispatch.job import JobKey, JobRef, encode_job_refs
from services.shared.group_commit import KeyedGroupCommit

log = structlog.get_logger("dispatch")

BATCH_SIZE = 5_000
# Further jobs are not queued here: pools find them in Postgres.
MAX_WAITING = 50_000


class JobNotifier:
    """Notifies pools of stored jobs without making the caller wait."""

    def __init__(
        self,
        call: Callable[..., Awaitable[Any]],
        mark_pending: Callable[[Sequence[JobKey]], Awaitable[None]],
    ) -> None:
        self._call = call
        self._mark_pending = mark_pending
        self._commits = KeyedGroupCommit(self._notify, BATCH_SIZE, MAX_WAITING)

    async def notify(self, jobs: Mapping[int, Sequence[JobRef]]) -> None:
        """Queue these jobs for their pools; a pool that is away finds them in Postgres."""
        for pool_no, job_refs in jobs.items():
            self._commits.add(pool_no, job_refs)

    async def close(self) -> None:
        """Hand over the queued jobs within a second."""
        await self._commits.close(1.0)

    async def _notify(self, pool_no: int, jobs: list[JobRef]) -> None:
        try:
            await self._call(dispatch_pool_name(pool_no), "offer", encode_job_refs(jobs))
        except Exception as error:  # the pool does not know of these jobs
            log.warning("dispatch.pool_away", pool=pool_no, error=repr(error))
            try:
                await self._mark_pending([job.key for job in jobs])
            except Exception as broken:  # the pool's next scan finds them, a little later
                log.warning("dispatch.not_marked", error=type(broken).__name__)
