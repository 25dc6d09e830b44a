"""What every process needs: turn ids, a name, pending requests, background work, the clock."""

import asyncio
import gc
import inspect
import os
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from services.shared.retry import retrying, skip_during_outage
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool

log = structlog.get_logger("process")

SYNC_INTERVAL = 5.0
R = TypeVar("R")


class _TurnIdGenerator:
    """Creates random ids, and fetches the randomness for many at once.

    Each system call releases the interpreter's lock. Getting the lock back from Ray's threads took
    as long as the rest of finding an event's correlation.
    """

    SIZE, AHEAD = 16, 256

    def __init__(self) -> None:
        self._left: list[str] = []
        os.register_at_fork(after_in_child=self._left.clear)

    def __call__(self) -> str:
        try:
            return self._left.pop()
        except IndexError:
            fresh = os.urandom(self.SIZE * self.AHEAD).hex()
            width = 2 * self.SIZE
            self._left.extend(fresh[at : at + width] for at in range(width, len(fresh), width))
            return fresh[:width]


new_turn_id = _TurnIdGenerator()


def owner_name(name: str) -> str:
    """Name this incarnation of an actor, as the owner of the rows that it writes."""
    return f"{name}@{socket.gethostname()}:{os.getpid()}"


def freeze_gc() -> None:
    """Exempt loaded objects from garbage collection, because they stay for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)


class PendingRequest(Generic[R]):
    """What one caller adds to a batch, and the future of its result."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    @property
    def abandoned(self) -> bool:
        """Return whether the caller has stopped waiting."""
        return self.future.done()

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def abandon(self) -> None:
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()  # mark the exception as retrieved, else asyncio logs it

    async def result(self, seconds: float, late: Callable[[], Exception]) -> R:
        """Wait for the result; raise `late()` after some seconds."""
        # asyncio.timeout would cost as much as the rest of a callback's way to its shard.
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, lambda: self.fail(late()))
        try:
            return await self.future
        finally:
            timer.cancel()
            self.abandon()


class BackgroundTasks:
    """Keeps tasks that no caller awaits, because asyncio itself has only weak references."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def run(work: Callable[[], object]) -> None:
    """Call a function, which may be a coroutine function."""
    result = work()
    if inspect.isawaitable(result):
        await result


async def repeat(name: str, seconds: float, work: Callable[[], object]) -> None:
    """Run `work` for ever, with a pause after each round; a failed round is logged."""
    while True:
        try:
            with skip_during_outage(name):
                await run(work)
        except Exception:
            log.exception("process.round_failed", actor=name)
        await asyncio.sleep(seconds)


async def sync_until_done(clock: DatabaseClock, pool: Pool) -> None:
    """Read the database's clock, which must be known before any decision."""
    while not clock.synced:
        await retrying(partial(clock.sync, pool))
