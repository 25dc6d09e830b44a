"""Long work of one caller, in steps between which others have their turn."""

import asyncio
import time

STEP = 0.005


class Breath:
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
