"""Writes about once a second to Postgres what a process has stored for each tenant."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.access.usage_counter import UsageCounter, UsageCounts

FLUSH_INTERVAL = 1.0
BATCH_SIZE = 1_000
_ROUNDS = 10


@dataclass(eq=False, repr=False)
class UsageWriter:
    """Flushes a counter. If the process is killed, the counts of about a second are lost."""

    _counter: UsageCounter
    _add: Callable[[UsageCounts], Awaitable[None]]

    async def flush(self) -> None:
        """Write the counts; counts that cannot be written now are kept."""
        for _ in range(_ROUNDS):
            counts = self._counter.take(BATCH_SIZE)
            if not counts:
                return
            try:
                await self._add(counts)
            except BaseException:
                self._counter.put_back(counts)
                raise
