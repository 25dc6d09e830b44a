"""What every actor process does once: logging, its name, loops that may not end unseen."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from core.shared.config import Config
from services.shared.process import repeat
from services.shared.progress import WorkProgress
from storage.encryption import cipher
from storage.postgres.error_class import SERVER_ERRORS
from telemetry.logging import configure_logging

log = structlog.get_logger("process")

T = TypeVar("T")


class Process:
    """Keeps an actor's background loops; if one ends, the process ends and Ray starts it anew."""

    def __init__(
        self, name: str, config: Config, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        configure_logging(config.log_level, as_json=config.log_json)
        cipher.configure(config)
        self.name = name
        self.started_at = time.time()
        self._monotonic = monotonic
        self._tasks: list[asyncio.Task[None]] = []
        self._measures: dict[str, Callable[[], float]] = {}

    def launch(self, start: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin what must be done before any work; how long that takes is measured."""
        progress = WorkProgress(self._monotonic)
        progress.waits()
        self.measure("start", lambda: progress.stalled_seconds)
        task = asyncio.create_task(start)
        task.add_done_callback(self.watch)
        task.add_done_callback(lambda _: progress.done())
        return task

    def measure(self, work: str, stalled_seconds: Callable[[], float]) -> None:
        """Tell with each report for how long this work has been waiting without getting done."""
        self._measures[work] = stalled_seconds

    def spawn(self, loop: Coroutine[Any, Any, None]) -> None:
        """Run a loop that must never end."""
        task = asyncio.create_task(loop)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def retry_while_away(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do something once, trying again while Postgres is away."""
        while True:
            try:
                await work()
            except SERVER_ERRORS as error:
                log.warning("process.database_away", actor=self.name, error=type(error).__name__)
                await asyncio.sleep(0.2)
            else:
                return

    def watch(self, task: asyncio.Task[Any]) -> None:
        """A start that failed for any other reason ends the process; Ray starts it anew."""
        if not task.cancelled() and task.exception() is not None:
            self._ended(task)

    def every(
        self, seconds: float, work: Callable[[], Awaitable[object]], name: str | None = None
    ) -> None:
        """Run `work` again and again; a failed round is logged and the next one runs.

        With a name it is measured how long no round has succeeded.
        """
        if name is None:
            self.spawn(repeat(self.name, seconds, work))
            return
        progress = WorkProgress(self._monotonic)

        async def measured() -> None:
            progress.waits()
            await work()
            progress.done()

        self.measure(name, lambda: progress.stalled_seconds)
        self.spawn(repeat(self.name, seconds, measured))

    def describe(self) -> dict[str, Any]:
        """Where this actor runs."""
        return {
            "name": self.name,
            "pid": os.getpid(),
            "node": socket.gethostname(),
            "uptime": time.time() - self.started_at,
            "stalled": {work: round(stalled(), 1) for work, stalled in self._measures.items()},
        }

    async def close(self) -> None:
        """End all loops; for tests, as the process of an actor just ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            log.error("process.loop_ended", actor=self.name, exc_info=task.exception())
            os._exit(1)
