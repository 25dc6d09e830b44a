"""Numbers of AUTO_NUMBER fields, taken from Postgres in blocks."""

import asyncio
from collections.abc import Awaitable, Callable

BLOCK = 100
"""Numbers that are taken at once. Those that a process has not used when it ends are left out."""

NumberedField = tuple[int, int, str]
"""Tenant, collection and field."""
LeaseNumbers = Callable[[int, int, str, int], Awaitable[int]]


class AutoNumbers:
    """Hands out numbers, each once; those of one process ascend."""

    def __init__(self, lease: LeaseNumbers) -> None:
        self._lease = lease
        self._blocks: dict[NumberedField, range] = {}
        self._lock = asyncio.Lock()

    async def take(self, field: NumberedField, count: int) -> list[int]:
        async with self._lock:
            block = self._blocks.pop(field, range(0))
            taken = list(block[:count])
            if len(taken) < count:
                missing = count - len(taken)
                first = await self._lease(*field, max(BLOCK, missing))
                block = range(first, first + max(BLOCK, missing))
                taken += block[:missing]
                self._blocks[field] = block[missing:]
            else:
                self._blocks[field] = block[count:]
            return taken
