"""The base class of actors: lazy start, background loops and reports."""

import asyncio
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from core.shared.config import Config
from services.shared.process import (
    SYNC_INTERVAL,
    freeze_gc,
    new_turn_id,
    repeat,
    run,
    sync_until_done,
)
from services.shared.progress import WorkProgress
from services.shared.retry import Pauses, log_outage, retrying
from storage.encryption import cipher
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions, open_pool
from telemetry.logging import configure_logging

log = structlog.get_logger("process")

T = TypeVar("T")

_PAUSES = Pauses(cap=0.2)


class ActorEnvironment:
    """The clocks, random numbers and ids of an actor."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.clock = DatabaseClock(monotonic, time.time)
        self.now = self.clock.now
        self.monotonic = monotonic
        self.chance = random.random
        self.new_turn_id = new_turn_id


class Actor(Generic[T]):
    """Starts with its first call, because Ray runs constructors without an event loop.

    `T` is what the actor hosts: the logic without Ray. If the start or a loop fails, the process
    ends and Ray restarts it.
    """

    kind: ClassVar[str] = ""

    def __init__(
        self, name: str, config: Config, environment: ActorEnvironment | None = None
    ) -> None:
        configure_logging(config.log_level, as_json=config.log_json)
        cipher.configure(config)
        self._name = name
        self._config = config
        self._environment = environment or ActorEnvironment()
        self._started_at = time.time()
        self._tasks: list[asyncio.Task[None]] = []
        self._measures: dict[str, Callable[[], float]] = {}
        self._starting: asyncio.Task[T] | None = None
        # Set once the start is done.
        self._hosted: T | None = None

    async def report(self) -> dict[str, Any]:
        """Describe this actor and its work; the first report starts it."""
        self._begin()
        return self._describe()

    async def _start(self) -> T:
        """Open connections, start loops and return what this actor hosts."""
        raise NotImplementedError

    def _stats(self) -> dict[str, Any]:
        return {}

    def _describe(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "pid": os.getpid(),
            "node": socket.gethostname(),
            "uptime": time.time() - self._started_at,
            "stalled": {work: round(stalled(), 1) for work, stalled in self._measures.items()},
            "kind": self.kind,
            "stats": self._stats(),
        }

    async def _started(self) -> T:
        return await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[T]:
        if self._starting is None:
            progress = WorkProgress(self._environment.monotonic)
            progress.waits()
            self._measure("start", lambda: progress.stalled_seconds)
            self._starting = asyncio.create_task(self._start_and_freeze())
            self._starting.add_done_callback(self._end_process_on_error)
            self._starting.add_done_callback(lambda _: progress.done())
        return self._starting

    async def _start_and_freeze(self) -> T:
        self._hosted = await self._start()
        freeze_gc()
        return self._hosted

    async def _open_database(
        self, max_size: int, sync_interval: float = SYNC_INTERVAL, *, plan_each_time: bool = False
    ) -> Pool:
        """Open a pool and follow the database's clock, which must be known before any decision."""
        clock = self._environment.clock
        options = PoolOptions(
            dsn=self._config.dsn,
            name=self._name,
            max_size=max_size,
            plan_each_time=plan_each_time,
        )
        self._database = await open_pool(options, clock.measure)
        await sync_until_done(clock, self._database)
        self._every(sync_interval, partial(clock.sync, self._database))
        return self._database

    def _measure(self, work: str, stalled_seconds: Callable[[], float]) -> None:
        """Include in the report for how long this work has made no progress."""
        self._measures[work] = stalled_seconds

    def _spawn(self, loop: Coroutine[Any, Any, None]) -> None:
        """Run a loop that must never end."""
        task = asyncio.create_task(loop)
        task.add_done_callback(self._end_process)
        self._tasks.append(task)

    def _every(self, seconds: float, work: Callable[[], object], name: str | None = None) -> None:
        """Run `work` at intervals; a failed round is logged and the next one runs.

        With a name, the report says for how long no round has succeeded.
        """
        if name is None:
            self._spawn(repeat(self._name, seconds, work))
            return
        progress = WorkProgress(self._environment.monotonic)

        async def measured() -> None:
            progress.waits()
            await run(work)
            progress.done()

        self._measure(name, lambda: progress.stalled_seconds)
        self._spawn(repeat(self._name, seconds, measured))

    async def _retrying(self, work: Callable[[], Awaitable[object]]) -> None:
        await retrying(work, failed=partial(log_outage, who=self._name), pauses=_PAUSES)

    async def _close(self) -> None:
        """Cancel all loops; only tests need it, because the process of an actor just ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end_process_on_error(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._end_process(task)

    def _end_process(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            log.error("process.loop_ended", actor=self._name, exc_info=task.exception())
            os._exit(1)
