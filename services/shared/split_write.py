"""Writes a group of items; if Postgres refuses the group, finds the item that causes it.

A server error says nothing about the items, so the same group is tried again for as long as it
lasts. After an error of a row or a statement time-out, the group is halved: one bad item among n
costs about 2 log2(n) more writes, not n. An item is refused only if the server accepts others now,
and has refused it more than once.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from storage.postgres.error_class import ErrorClass, error_class

log = structlog.get_logger("split_write")

# How often a single item is tried whose values are refused.
ROW_TRIES = 2

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWrite(Generic[T, R]):
    """How a group of items is written, and what happens to its parts."""

    write: Callable[[list[T]], Awaitable[R]]
    """Write items together or not at all."""
    settle: Callable[[list[T], R], Awaitable[None]]
    """Handle items that were written."""
    refuse: Callable[[T, Exception], Awaitable[None]]
    """Handle an item that can never be written."""
    probe: Callable[[], Awaitable[None]]
    """Write a test row and roll it back; raise an error if the server refuses it."""
    pause: Callable[[int, Exception], Awaitable[None]]
    """Wait before the next attempt; gets the number of attempts that the server failed."""
    slow_tries: int = 2
    """How often a single item may exceed the statement time-out before it is refused."""
    is_wanted: Callable[[T], bool] | None = None
    """Return whether a caller still waits for an item. None means always."""

    async def run(self, items: Sequence[T]) -> None:
        """Write all items; return when each is settled, refused or no longer wanted."""
        parts = [list(items)]
        suspect: T | None = None
        tries = attempt = 0
        takes_others = False
        while parts:
            part = parts.pop()
            if self.is_wanted is not None:
                part = list(filter(self.is_wanted, part))
            if not part:
                continue
            try:
                written = await self.write(part)
            except Exception as error:
                kind = error_class(error)
                if kind is ErrorClass.SERVER or (
                    len(part) == 1 and not (takes_others or await self._takes_others())
                ):
                    await self.pause(attempt, error)
                    attempt += 1
                    parts.append(part)
                elif len(part) > 1:
                    log.warning("write.split", items=len(part), error=repr(error)[:300])
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                else:
                    tries = tries + 1 if part[0] is suspect else 1
                    suspect, takes_others = part[0], True
                    most = self.slow_tries if kind is ErrorClass.TIMEOUT else ROW_TRIES
                    if tries < most:
                        parts.append(part)
                    else:
                        await self.refuse(part[0], error)
            else:
                takes_others, attempt = True, 0
                await self.settle(part, written)

    async def _takes_others(self) -> bool:
        try:
            await self.probe()
        except Exception as error:
            log.warning("write.probe_failed", error=repr(error)[:300])
            return False
        return True
