"""Writes the results of deliveries in groups, one statement at a time."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import structlog

from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey
from services.shared.group_commit import GroupCommit
from services.shared.progress import WorkProgress
from services.shared.retry import pause
from storage.dispatch.job_queue import JobResult
from storage.postgres.error_class import ErrorClass, error_class

log = structlog.get_logger("dispatch")

BATCH_SIZE = 1_000
# How often a single result is tried whose values Postgres refuses.
MAX_REFUSALS = 5

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
        self._size = BATCH_SIZE
        self._refusals = 0
        self._commit = GroupCommit(self._write, BATCH_SIZE)

    def __len__(self) -> int:
        """Count the results that are not written yet."""
        return len(self._commit)

    def add(self, job: ClaimedJob, result: JobResult) -> None:
        self._commit.add((job, result))

    async def close(self) -> None:
        """Stop writing; the next process finds these jobs when their claims have expired."""
        await self._commit.close()

    async def _write(self, results: list[FinishedJob]) -> None:
        attempt = 0
        while results:
            self._progress.waits()
            batch = results[: self._size]
            retry_times = await self._try(batch)
            if retry_times is None:
                await pause(attempt, chance=self._chance)
                attempt += 1
                continue
            self._progress.done()
            attempt = 0
            self._size = min(BATCH_SIZE, self._size * 2)
            del results[: len(batch)]
            self._written(batch, retry_times)

    async def _try(self, batch: Sequence[FinishedJob]) -> RetryTimes | None:
        """Write a batch; return None if it has to be written again."""
        try:
            retry_times = await self._finish([result for _, result in batch])
        except Exception as error:
            return self._after(error, batch)
        self._refusals = 0
        return retry_times

    def _after(self, error: Exception, batch: Sequence[FinishedJob]) -> RetryTimes | None:
        """Keep results while the server has trouble; drop a result that it will never accept."""
        kind = error_class(error)
        if kind is ErrorClass.SERVER:
            log.warning("dispatch.database_away", error=type(error).__name__)
            return None
        # One bad result, or a batch that is too large, must not block the others.
        log.warning("dispatch.not_written", jobs=len(batch), error=repr(error)[:300])
        self._size = max(1, len(batch) // 2)
        if kind is ErrorClass.TIMEOUT or len(batch) > 1:
            return None
        self._refusals += 1
        if self._refusals < MAX_REFUSALS:
            return None
        log.error("dispatch.result_dropped", job=batch[0][1].key, exc_info=error)
        self._refusals = 0
        return {}
