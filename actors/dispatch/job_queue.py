"""One pool's jobs in Postgres, as its reader and its dispatcher ask for them."""

from collections.abc import Sequence

from core.dispatch.claim import ClaimedJob
from core.dispatch.job import GroupKey, JobKey, JobRef
from storage.dispatch import job_queue
from storage.dispatch.job_queue import JobResult
from storage.postgres.pool import Pool


class JobQueue:
    """The queries of storage/dispatch/job_queue.py, for this pool and this owner."""

    def __init__(self, pool: Pool, pool_no: int, owner: str, grace: float) -> None:
        self._pool = pool
        self._pool_no = pool_no
        self._owner = owner
        self._grace = grace

    async def claim(self, keys: Sequence[JobKey]) -> list[ClaimedJob]:
        """Take these jobs; those that were won."""
        return await job_queue.claim(self._pool, self._pool_no, keys, self._owner, self._grace)

    async def finish(self, results: Sequence[JobResult]) -> dict[JobKey, float]:
        """Write what became of them; those that were kept, and when they go again."""
        return await job_queue.finish(self._pool, results)

    async def scan(self, after: int, limit: int) -> list[JobRef]:
        """All there is to do, in the order it was stored."""
        return await job_queue.scan(self._pool, self._pool_no, after, limit)

    async def again(self, after: int, limit: int) -> list[JobRef]:
        """What no pool has."""
        return await job_queue.unclaimed(self._pool, self._pool_no, after, limit)

    async def find(self, keys: Sequence[JobKey]) -> list[JobRef]:
        """Those of these jobs that are still to be done."""
        return await job_queue.find(self._pool, self._pool_no, keys)

    async def read_groups(self, groups: list[GroupKey], limit: int) -> dict[GroupKey, list[JobRef]]:
        """The first jobs of these groups."""
        return await job_queue.read_groups(self._pool, self._pool_no, groups, limit)

    async def expire(self, limit: int) -> list[JobKey]:
        """End jobs whose time is over and that nobody is sending; which."""
        return await job_queue.expire(self._pool, self._pool_no, limit)

    async def parked_groups(self) -> set[GroupKey]:
        """Groups that people hold back."""
        return await job_queue.parked_groups(self._pool, self._pool_no)

    async def not_failed(self, keys: Sequence[JobKey]) -> list[JobKey]:
        """Those of these jobs that hold nobody any more."""
        return await job_queue.not_failed(self._pool, keys)

    async def recent_starts(self) -> list[float]:
        """How many seconds ago each delivery of the last minute began, the oldest first."""
        return await job_queue.recent_starts(self._pool, self._pool_no)
