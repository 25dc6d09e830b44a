"""Background tasks with an owner, so that none outlives it and no failure is lost; and polling."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

Found = TypeVar("Found")


@contextlib.asynccontextmanager
async def background(
    *work: Coroutine[Any, Any, Any],
) -> AsyncIterator[list["asyncio.Task[Any]"]]:
    """Run coroutines for as long as the block lasts; a broken connection may end one earlier."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        for result in await cancel(tasks):
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result


async def cancel(tasks: Iterable["asyncio.Task[Any]"]) -> list[Any]:
    """Cancel tasks; return the result of each, or the exception that it ended with."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def poll(read: Callable[[], Awaitable[Found | None]], every: float = 0.05) -> Found:
    """Read again and again until there is something; a timeout is the caller's."""
    while True:
        if found := await read():
            return found
        await asyncio.sleep(every)


class TaskSet:
    """Tasks that are started one by one."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._errors: list[Exception] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, within: float = 0.0) -> int:
        """Wait for all tasks and cancel those that take longer; return how many that were.

        Raises what any of them failed with, now or earlier.
        """
        pending = set(self._tasks)
        if pending:
            _, pending = await asyncio.wait(pending, timeout=within)
        await cancel(pending)
        if self._errors:
            raise ExceptionGroup("background tasks failed", self._errors)
        return len(pending)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._errors.append(error)
