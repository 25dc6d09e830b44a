"""Writes the results of deliveries in groups, one statement at a time."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import structlog

from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey
from services.shared.group_commit import GroupCommit
from services.shared.progress import WorkProgress
from services.shared.retry import log_outage, pause
from services.shared.split_write import SplitWrite
from storage.dispatch.job_queue import JobResult

log = structlog.get_logger("dispatch")

BATCH_SIZE = 1_000

FinishedJob: TypeAlias = tuple[ClaimedJob, JobResult]
RetryTimes: TypeAlias = dict[JobKey, float]
"""The jobs whose claim was still valid, and when they are tried again."""


class ResultWriter:
    """Keeps results until they are committed, then calls `written`."""

    def __init__(
        self,
        finish: Callable[[Sequence[JobResult]], Awaitable[RetryTimes]],
        written: Callable[[Sequence[FinishedJob], RetryTimes], None],
        chance: Callable[[], float],
        progress: WorkProgress | None = None,
    ) -> None:
        self._finish = finish
        self._written = written
        self._chance = chance
        self._progress = progress or WorkProgress()
        self._split = SplitWrite(
            write=self._write,
            settle=self._settle,
            refuse=self._refuse,
            probe=self._probe,
            pause=self._pause,
            # A slow server is no reason to drop a result: its job would be sent again.
            slow_tries=sys.maxsize,
        )
        self._commit = GroupCommit(self._split.run, BATCH_SIZE)
        self.close = self._commit.close  # the next process finds the jobs whose claims expire

    def __len__(self) -> int:
        """Count the results that are not written yet."""
        return len(self._commit)

    def add(self, job: ClaimedJob, result: JobResult) -> None:
        self._commit.add((job, result))

    async def _write(self, batch: Sequence[FinishedJob]) -> RetryTimes:
        self._progress.waits()
        return await self._finish([result for _, result in batch])

    async def _settle(self, batch: Sequence[FinishedJob], retry_times: RetryTimes) -> None:
        self._progress.done()
        self._written(batch, retry_times)

    async def _refuse(self, finished: FinishedJob, error: Exception) -> None:
        log.error("dispatch.result_dropped", job=finished[1].key, exc_info=error)
        await self._settle([finished], {})

    async def _probe(self) -> None:
        await self._finish([])  # changes nothing, but needs a server that takes changes

    async def _pause(self, attempt: int, error: Exception) -> None:
        log_outage(error, who="dispatch")
        await pause(attempt, chance=self._chance)
