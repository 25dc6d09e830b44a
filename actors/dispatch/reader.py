"""How jobs come onto a pool's board: handed over, found in Postgres, or looked up by group.

Handing over is only the quick way. What it missed is found by the next look: after a start from
the beginning, then in what was stored lately, because rows can come to light out of order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

import structlog

from core.dispatch.board import GROUP_LIMIT, Board, fill
from core.dispatch.job import GroupKey, JobKey, Pointer

log = structlog.get_logger("dispatch")

PAGE = 1_000
GROUPS_AT_ONCE = 200
# No statement that stores jobs takes longer than this to commit.
WINDOW = 15.0


class Jobs(Protocol):
    """Postgres as a reader sees it: the jobs of one pool."""

    async def scan(self, after: int, limit: int) -> list[Pointer]:
        """All there is to do, in the order it was stored."""
        ...

    async def again(self, after: int, limit: int) -> list[Pointer]:
        """What no pool has."""
        ...

    async def read_groups(
        self, groups: list[GroupKey], limit: int
    ) -> dict[GroupKey, list[Pointer]]:
        """The first jobs of these groups."""
        ...

    async def find(self, keys: Sequence[JobKey]) -> list[Pointer]:
        """Those of these jobs that are still to be done."""
        ...

    async def parked_groups(self) -> set[GroupKey]:
        """Groups that people hold back."""
        ...


class Reader:
    """Keeps a board filled, up to so many jobs."""

    def __init__(
        self,
        jobs: Jobs,
        board: Board,
        limit: int,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._jobs = jobs
        self._board = board
        self._limit = limit
        self._now = now
        self._monotonic = monotonic
        # Everything after this is still to be read.
        self._cursor = 0
        self.is_behind = True
        # How far reading had come, and when: the window begins where it was some time ago.
        self._trail: deque[tuple[float, int]] = deque()

    def offer(self, jobs: Iterable[Pointer]) -> None:
        """Take over what was stored just now; what finds no room is read later."""
        left = fill(self._board, jobs, self._now(), self._limit)
        if left:
            self._fall_behind(min(job.position for job in left))

    async def read_on(self) -> bool:
        """Read the next page, if there is room; whether there was anything to do."""
        room = self._limit - len(self._board)
        if not self.is_behind or room < min(PAGE, self._limit // 2):
            return False
        found = await self._jobs.scan(self._cursor, PAGE)
        left = fill(self._board, found, self._now(), self._limit)
        if left:
            self._cursor = max(self._cursor, left[0].position - 1)
            return True
        if found:
            self._cursor = max(self._cursor, found[-1].position)
        self.is_behind = len(found) == PAGE
        return True

    async def look(self) -> None:
        """Find what was not handed over, and what people have changed."""
        self._board.park(await self._jobs.parked_groups(), self._now())
        await self._look_again()
        await self._look_back()
        await self.settle(list(islice(self._board.blocked(), GROUPS_AT_ONCE)))

    async def find(self, keys: Sequence[JobKey]) -> None:
        """Read what is true of these jobs; those of groups are read with their group."""
        found = await self._jobs.find(keys)
        self.offer(job for job in found if job.group_key is None)

    async def settle(self, groups: list[GroupKey]) -> None:
        """Read what is true of these groups."""
        if not groups:
            return
        found = await self._jobs.read_groups(groups, GROUP_LIMIT)
        for group, jobs in found.items():
            is_all = len(jobs) < GROUP_LIMIT
            self._board.settle(group, jobs, is_all=is_all, now=self._now())

    async def _look_again(self) -> None:
        after = 0
        while found := await self._jobs.again(after, PAGE):
            self.offer(found)
            after = found[-1].position
            if len(found) < PAGE or len(self._board) >= self._limit:
                return

    async def _look_back(self) -> None:
        """Read what was stored lately once more; not while all of it is still to be read."""
        if self.is_behind:
            return
        now = self._monotonic()
        while len(self._trail) > 1 and self._trail[1][0] <= now - WINDOW:
            self._trail.popleft()
        after = self._trail[0][1] if self._trail else self._cursor
        found = await self._jobs.scan(after, PAGE)
        if len(found) == PAGE:
            self._fall_behind(after + 1)
            return
        self.offer(found)
        if found:
            self._cursor = max(self._cursor, found[-1].position)
        self._trail.append((now, self._cursor))

    def _fall_behind(self, position: int) -> None:
        if not self.is_behind:
            log.info("dispatch.behind", jobs=len(self._board))
        self._cursor = min(self._cursor, position - 1) if self.is_behind else position - 1
        self.is_behind = True
