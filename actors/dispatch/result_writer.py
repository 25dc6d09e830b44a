"""Writes what became of jobs: one statement for all that gathered while the last one ran."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import structlog

from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey
from core.shared.backoff import backoff
from services.shared.progress import WorkProgress
from storage.dispatch.job_queue import JobResult
from storage.postgres.error_class import ErrorClass, error_class

log = structlog.get_logger("dispatch")

BATCH_SIZE = 1_000
# How often a single result is tried whose own values Postgres refuses.
MAX_REFUSALS = 5

FinishedJob: TypeAlias = tuple[ClaimedJob, JobResult]
RetryTimes: TypeAlias = dict[JobKey, float]
"""Those that were ours to the end, and when they go again."""


class ResultWriter:
    """Keeps results until Postgres has them. `written` is called when it has."""

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
        self._outcomes: list[FinishedJob] = []
        self._size = BATCH_SIZE
        self._refusals = 0
        self._writing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many are still to be written."""
        return len(self._outcomes)

    def add(self, job: ClaimedJob, result: JobResult) -> None:
        """This became of a job."""
        self._outcomes.append((job, result))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def close(self) -> None:
        """Write no more; whoever comes next finds those jobs when their time is over."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        attempt = 0
        try:
            while self._outcomes:
                self._progress.waits()
                batch = self._outcomes[: self._size]
                kept = await self._try(batch)
                if kept is None:
                    pause = backoff(attempt, base=0.05, cap=1.0, jitter=self._chance())
                    attempt += 1
                    await asyncio.sleep(pause)
                    continue
                self._progress.done()
                attempt = 0
                self._size = min(BATCH_SIZE, self._size * 2)
                del self._outcomes[: len(batch)]
                self._written(batch, kept)
        finally:
            self._writing = None

    async def _try(self, batch: Sequence[FinishedJob]) -> RetryTimes | None:
        """Those that were kept; None if they are to be written once more."""
        try:
            kept = await self._finish([result for _, result in batch])
        except Exception as error:
            return self._after(error, batch)
        self._refusals = 0
        return kept

    def _after(self, error: Exception, batch: Sequence[FinishedJob]) -> RetryTimes | None:
        """Keep what was delivered while the server is in trouble; drop what it will never take."""
        kind = error_class(error)
        if kind is ErrorClass.SERVER:
            log.warning("dispatch.database_away", error=type(error).__name__)
            return None
        # One that cannot be written, or all of them at once, must not keep the others.
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
