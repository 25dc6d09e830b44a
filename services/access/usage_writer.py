"""Tells Postgres about once a second what a process has stored for each tenant."""

from collections.abc import Awaitable, Callable

from core.shared.usage_counter import UsageCounter, UsageCounts

FLUSH_INTERVAL = 1.0
BATCH_SIZE = 1_000
_ROUNDS = 10


class UsageWriter:
    """Flushes a counter. What is not told when a process is killed is lost: a second's worth."""

    def __init__(
        self, counter: UsageCounter, add: Callable[[UsageCounts], Awaitable[None]]
    ) -> None:
        self._counter = counter
        self._add = add

    async def flush(self) -> None:
        """Add what was counted; what cannot be added now stays counted."""
        for _ in range(_ROUNDS):
            counts = self._counter.take(BATCH_SIZE)
            if not counts:
                return
            try:
                await self._add(counts)
            except BaseException:
                self._counter.put_back(counts)
                raise
