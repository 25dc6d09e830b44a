"""Long work of one caller, in steps between which others have their turn."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

STEP = 0.001
# So many bytes are looked through in a few of those.
MIN_OFFLOAD_BYTES = 256 * 1024

Given = TypeVar("Given")
Made = TypeVar("Made")


class TimeSlice:
    """Says when one has worked for long enough."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + STEP

    @property
    def is_due(self) -> bool:
        """Others have waited for a while."""
        return time.perf_counter() > self._until

    async def take(self) -> None:
        """Let them."""
        await asyncio.sleep(0)
        self._until = time.perf_counter() + STEP


async def offload_if_large(work: Callable[[], Made], size: int) -> Made:
    """Work on so many bytes: in a thread if they are many, so that others have their turn."""
    return await asyncio.to_thread(work) if size > MIN_OFFLOAD_BYTES else work()


async def map_yielding(work: Callable[[Given], Made], items: Iterable[Given]) -> list[Made]:
    """Work on many, one after the other."""
    timeslice = TimeSlice()
    made: list[Made] = []
    for item in items:
        made.append(work(item))
        if timeslice.is_due:
            await timeslice.take()
    return made
