"""Group commit: what arrives while one batch is written goes together into the next."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(eq=False, repr=False)
class GroupCommit(Generic[T]):
    """Writes items in batches, one batch at a time, without timers.

    A batch has at most `max_items`; with `cost`, each component of the summed costs is at most
    `max_cost`. An item that costs more is written alone. `write` has to handle every item.
    """

    write: Callable[[list[T]], Awaitable[object]]
    max_items: int
    cost: Callable[[T], tuple[int, int]] | None = None
    max_cost: tuple[int, int] = (0, 0)
    waiting: deque[T] = field(default_factory=deque)
    _under_way: int = 0
    _running: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Count the items that are not written yet."""
        return len(self.waiting) + self._under_way

    def add(self, *items: T) -> None:
        self.waiting.extend(items)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def close(self, timeout: float = 0.0) -> None:
        """Stop after waiting up to `timeout` seconds for the remaining items."""
        task = self._running
        if task is not None:
            if timeout:
                await asyncio.wait([task], timeout=timeout)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self.waiting:
                batch = self._next_batch()
                self._under_way = len(batch)
                await self.write(batch)
                self._under_way = 0
        finally:
            # Not in a callback: a caller that adds again as soon as it is answered runs before
            # callbacks do, and would rely on a task that has already ended.
            self._running = None
            self._under_way = 0

    def _next_batch(self) -> list[T]:
        if self.cost is None:
            return [self.waiting.popleft() for _ in range(min(self.max_items, len(self.waiting)))]
        batch: list[T] = []
        first = second = 0
        while self.waiting and len(batch) < self.max_items:
            one, other = self.cost(self.waiting[0])
            is_full = first + one > self.max_cost[0] or second + other > self.max_cost[1]
            if batch and is_full:
                break
            batch.append(self.waiting.popleft())
            first, second = first + one, second + other
        return batch


class KeyedGroupCommit(Generic[K, T]):
    """A group commit for each key, which exists while it has items to write."""

    def __init__(
        self, write: Callable[[K, list[T]], Awaitable[object]], max_items: int, max_waiting: int
    ) -> None:
        self._write = write
        self._max_items = max_items
        self._max_waiting = max_waiting
        self._commits: dict[K, GroupCommit[T]] = {}

    def __len__(self) -> int:
        return len(self._commits)

    def add(self, key: K, items: Iterable[T]) -> None:
        """Add items to the key's next batch, or drop them if too many wait."""
        commit = self._commits.get(key)
        if commit is None:
            commit = self._commits[key] = GroupCommit(
                partial(self._write_one, key), self._max_items
            )
        if len(commit.waiting) < self._max_waiting:
            commit.add(*items)

    async def close(self, timeout: float = 0.0) -> None:
        commits = list(self._commits.values())
        await asyncio.gather(*(commit.close(timeout) for commit in commits))

    async def _write_one(self, key: K, batch: list[T]) -> None:
        try:
            await self._write(key, batch)
        finally:
            if not self._commits[key].waiting:
                del self._commits[key]
