"""Fills a pool's scheduler with jobs that are handed over, found by a scan or read by group.

Handing over is only the fast path. After a start, a scan reads all jobs; later scans read the
recently stored ones again, because rows can become visible out of order. At long intervals
everything is read again.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from core.dispatch.job import GroupKey, JobKey, JobRef
from core.dispatch.scheduler import MAX_JOBS_PER_GROUP, JobScheduler
from storage.dispatch.job_queue import JobQueue

log = structlog.get_logger("dispatch")

PAGE = 1_000
PAGES_AT_ONCE = 5
GROUPS_AT_ONCE = 200
# At least this many jobs of a group are read, even if the scheduler is full.
MIN_GROUP_JOBS = 5
# Every statement that stores jobs commits within this time.
RECENT_SECONDS = 15.0
READ_ALL_EVERY = 900.0
# Seconds until jobs are read again that were left out because they could not start.
REREAD_DELAY = 5.0


@dataclass(eq=False, repr=False)
class JobLoader:
    """Keeps a scheduler filled, up to `limit` jobs."""

    _jobs: JobQueue
    _scheduler: JobScheduler
    limit: int
    _now: Callable[[], float]
    _monotonic: Callable[[], float]
    _read_all_every: float = READ_ALL_EVERY
    # Jobs after this position have not been read yet.
    _cursor: int = 0
    is_behind: bool = True
    # Pairs of time and cursor; the window of recent jobs starts at the cursor of some time ago.
    _trail: deque[tuple[float, int]] = field(default_factory=deque)
    _again_after: int = 0
    _looks_back_at: float = 0.0
    _read_all_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._read_all_at = self._monotonic() + self._read_all_every

    @property
    def has_room(self) -> bool:
        return self.limit - len(self._scheduler) >= max(1, min(PAGE, self.limit // 2))

    def offer(self, jobs: Iterable[JobRef]) -> None:
        """Add jobs that were stored just now; jobs without room are read later."""
        left = self._scheduler.add_while_room(jobs, self._now(), self.limit)
        if left:
            self._fall_behind(min(job.position for job in left))

    async def read_next_page(self) -> bool:
        """Read the next page if there is room; return whether there was anything to do."""
        if not self.is_behind or not self.has_room:
            return False
        cursor = self._cursor
        found, fresh = await self._read(self._jobs.scan(cursor, PAGE))
        left = self._scheduler.add_while_room(fresh, self._now(), self.limit)
        if self._cursor < cursor:  # jobs before the cursor were left out meanwhile
            return True
        if left:
            self._cursor = max(self._cursor, left[0].position - 1)
            return True
        if found:
            self._cursor = max(self._cursor, found[-1].position)
        self.is_behind = len(found) == PAGE
        return True

    def reread_later(self) -> None:
        self._read_all_at = min(self._read_all_at, self._monotonic() + REREAD_DELAY)

    async def park(self) -> None:
        self._scheduler.park(await self._jobs.parked_groups(), self._now())

    async def expire(self) -> int:
        """End expired jobs, let their groups continue, and return how many there were.

        Most expired jobs are noticed when they are claimed. Jobs behind a blocked job of their
        group, or in a parked group, are never claimed.
        """
        ended = 0
        for _ in range(PAGES_AT_ONCE):
            keys = await self._jobs.expire(PAGE)
            for key in keys:
                self._scheduler.drop(key, self._now())
            ended += len(keys)
            if len(keys) < PAGE:
                break
        return ended

    async def rescan(self) -> None:
        await self.park()
        await self._read_unclaimed()
        await self._reread_recent()
        await self._reread_blocked()
        now = self._monotonic()
        if now >= self._read_all_at and not self.is_behind:
            self._read_all_at = now + self._read_all_every
            self._fall_behind(1)

    async def rescan_targets(self) -> None:
        """Read the targets of the known jobs again after a subscription changed its target."""
        keys = self._scheduler.keys()
        for at in range(0, len(keys), PAGE):
            _, fresh = await self._read(self._jobs.find(keys[at : at + PAGE]))
            self.offer(job for job in fresh if job.key in self._scheduler)

    async def find(self, keys: Sequence[JobKey]) -> None:
        """Read these jobs again, except jobs of groups, which are read with their group."""
        _, fresh = await self._read(self._jobs.find(keys))
        self.offer(job for job in fresh if job.group_key is None)

    async def settle(self, groups: list[GroupKey]) -> None:
        if not groups:
            return
        share = (self.limit - len(self._scheduler)) // len(groups)
        most = min(max(share, MIN_GROUP_JOBS), MAX_JOBS_PER_GROUP)
        with self._scheduler.reading() as changed:
            found = await self._jobs.read_groups(groups, most)
        now = self._now()
        for group, jobs in found.items():
            is_all = len(jobs) < most
            self._scheduler.settle(group, jobs, now, is_all=is_all, changed=changed)

    async def _read_unclaimed(self) -> None:
        """Read a few pages of jobs that no pool has claimed.

        A group may have more jobs than these pages contain, so it is read as a whole.
        """
        for _ in range(PAGES_AT_ONCE):
            found, fresh = await self._read(self._jobs.unclaimed(self._again_after, PAGE))
            rest = [job for job in fresh if not self._doubts(job)]
            if left := self._scheduler.add_while_room(rest, self._now(), self.limit):
                self._again_after = left[0].position - 1
                return
            self._again_after = found[-1].position if len(found) == PAGE else 0
            if not self._again_after:
                return

    def _doubts(self, job: JobRef) -> bool:
        """Mark the group of a job as stale if the group is unknown and there is room for it."""
        group = job.group_key
        if group is None or self._scheduler.knows(group) or len(self._scheduler) >= self.limit:
            return False
        self._scheduler.mark_stale(group)
        return True

    async def _reread_recent(self) -> None:
        """Read recently stored jobs again, unless the first scan is not finished.

        A full scheduler does so less often, because it knows most of these jobs already.
        """
        now = self._monotonic()
        if self.is_behind or (len(self._scheduler) > PAGE and now < self._looks_back_at):
            return
        self._looks_back_at = now + RECENT_SECONDS / 2
        while len(self._trail) > 1 and self._trail[1][0] <= now - RECENT_SECONDS:
            self._trail.popleft()
        after = self._trail[0][1] if self._trail else self._cursor
        found, fresh = await self._read(self._jobs.scan(after, PAGE))
        if len(found) == PAGE:
            self._fall_behind(after + 1)
            return
        if found:
            self._cursor = max(self._cursor, found[-1].position)
        self._trail.append((now, self._cursor))
        self.offer(fresh)

    async def _reread_blocked(self) -> None:
        """Read groups again whose failed job an operator has resolved."""
        blocked = {key: group for group, key in self._scheduler.blocked()}
        keys = list(blocked)
        for at in range(0, len(keys), PAGE):
            for key in await self._jobs.not_failed(keys[at : at + PAGE]):
                self._scheduler.mark_stale(blocked[key])

    async def _read(self, reading: Awaitable[list[JobRef]]) -> tuple[list[JobRef], list[JobRef]]:
        """Return the jobs that were read, and those of them that did not change meanwhile."""
        with self._scheduler.reading() as changed:
            found = await reading
        return found, [job for job in found if job.key not in changed]

    def _fall_behind(self, position: int) -> None:
        if not self.is_behind:
            log.info("dispatch.behind", jobs=len(self._scheduler))
        self._cursor = min(self._cursor, position - 1) if self.is_behind else position - 1
        self.is_behind = True
