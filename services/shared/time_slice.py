"""Splits long work into steps, so that other tasks of the event loop can run in between."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

STEP = 0.001
# Larger inputs are processed in a thread, because they take several steps.
MIN_OFFLOAD_BYTES = 256 * 1024

Given = TypeVar("Given")
Made = TypeVar("Made")


class TimeSlice:
    """Measures how long the current task has run without yielding."""

    __slots__ = ("_clock", "_step", "_until")

    def __init__(self, step: float = STEP, clock: Callable[[], float] = time.perf_counter) -> None:
        self._step = step
        self._clock = clock
        self._until = clock() + step

    @property
    def is_due(self) -> bool:
        return self._clock() > self._until

    async def take(self) -> None:
        await asyncio.sleep(0)
        self._until = self._clock() + self._step


async def offload_if_large(work: Callable[[], Made], size: int) -> Made:
    """Run `work` on `size` bytes of input, in a thread if they are many."""
    return await asyncio.to_thread(work) if size > MIN_OFFLOAD_BYTES else work()


async def map_yielding(work: Callable[[Given], Made], items: Iterable[Given]) -> list[Made]:
    """Apply `work` to each item in order, and yield to other tasks in between."""
    timeslice = TimeSlice()
    made: list[Made] = []
    for item in items:
        made.append(work(item))
        if timeslice.is_due:
            await timeslice.take()
    return made
