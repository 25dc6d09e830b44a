"""A cache of values from Postgres; concurrent callers share one query."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A bounded cache. A returned value is at most `ttl` seconds old."""

    def __init__(
        self,
        read: Callable[[K], Awaitable[V]],
        *,
        ttl: Callable[[V], float],
        monotonic: Callable[[], float],
        limit: int = 10_000,
    ) -> None:
        self._read_value = read
        self._ttl = ttl
        self._monotonic = monotonic
        self._limit = limit
        self._values: dict[K, tuple[V, float]] = {}
        self._reading: dict[K, asyncio.Task[V]] = {}
        self._changes = 0

    async def get(self, key: K) -> V:
        known = self._values.get(key)
        if known is not None and self._monotonic() < known[1]:
            return known[0]
        return await self._read(key)

    def has(self, key: K) -> bool:
        return key in self._values

    async def refresh(self, key: K) -> V:
        """Return the value from a query that started after this call."""
        running = self._reading.get(key)
        if running is not None:
            await asyncio.wait({running})
        return await self._read(key)

    def forget(self, key: K) -> None:
        self._changes += 1
        self._values.pop(key, None)
        self._reading.pop(key, None)  # the query under way may have started before the change

    def clear(self) -> None:
        self._changes += 1
        self._values.clear()
        self._reading.clear()

    def forget_where(self, are_meant: Callable[[K], bool]) -> None:
        self._changes += 1
        for known in (self._values, self._reading):
            for key in [key for key in known if are_meant(key)]:
                del known[key]

    async def fill(
        self, keys: Iterable[K], read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]
    ) -> None:
        """Read the unknown values among these keys with one query."""
        began, changes = self._monotonic(), self._changes
        missing = [key for key in keys if not self._knows(key) and key not in self._reading]
        if not missing:
            return
        found = await read(missing)
        if self._changes == changes:  # else the query may have started before a change
            for key, value in found.items():
                self._keep(key, value, began)

    def _knows(self, key: K) -> bool:
        known = self._values.get(key)
        return known is not None and self._monotonic() < known[1]

    def _keep(self, key: K, value: V, began: float) -> None:
        self._values.pop(key, None)
        self._values[key] = (value, began + self._ttl(value))
        while len(self._values) > self._limit:
            del self._values[next(iter(self._values))]

    async def _read(self, key: K) -> V:
        task = self._reading.get(key)
        if task is None:
            task = asyncio.create_task(self._read_and_keep(key))
            task.add_done_callback(_consume_exception)
            self._reading[key] = task
        # A caller that gives up must not cancel the query for the others.
        return await asyncio.shield(task)

    async def _read_and_keep(self, key: K) -> V:
        try:
            # The age counts from the start of the query, which may miss later changes.
            began = self._monotonic()
            value = await self._read_value(key)
            if self._is_current(key):
                self._keep(key, value, began)
            return value
        finally:
            if self._is_current(key):
                del self._reading[key]

    def _is_current(self, key: K) -> bool:
        """Return whether this query is the latest and was not invalidated."""
        return self._reading.get(key) is asyncio.current_task()


def _consume_exception(task: asyncio.Task[V]) -> None:
    """Mark the exception of a query as retrieved, in case all callers have given up."""
    if not task.cancelled():
        task.exception()
