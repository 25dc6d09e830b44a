"""Write a group of items; where Postgres refuses the group, find out which item it is about.

Trouble of the server says nothing about the items: the same group is tried again, however long it
lasts. What a row itself is guilty of, and what takes longer than a statement may, is looked for by
halves: one bad item among n costs about 2 log2(n) writes more, not n. An item is refused only if
the server demonstrably takes others now, and refused it more than once.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from storage.postgres.error_class import ErrorClass, error_class

log = structlog.get_logger("split_write")

# How often an item alone is tried whose own values are refused.
ROW_TRIES = 2

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitWrite(Generic[T, R]):
    """How a group of items is written, and what happens to its parts."""

    write: Callable[[list[T]], Awaitable[R]]
    """Write these together or not at all."""
    settle: Callable[[list[T], R], Awaitable[None]]
    """These were written."""
    refuse: Callable[[T, Exception], Awaitable[None]]
    """This one cannot be written, ever."""
    probe: Callable[[], Awaitable[None]]
    """Write something harmless of the same kind and undo it; raises if that cannot be done."""
    pause: Callable[[int, Exception], Awaitable[None]]
    """Wait before another try; gets how many tries failed for the server's sake so far."""
    slow_tries: int = 2
    """How often an item alone may take longer than a statement may."""
    is_wanted: Callable[[T], bool] | None = None
    """Whether anybody still waits for an item; asked before each try. None: always."""

    async def run(self, items: Sequence[T]) -> None:
        """Write all items; returns when each is settled, refused or no longer wanted."""
        parts = [list(items)]
        suspect: T | None = None
        tries = attempt = 0
        takes_others = False
        while parts:
            part = self._wanted(parts.pop())
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

    def _wanted(self, part: list[T]) -> list[T]:
        return part if self.is_wanted is None else list(filter(self.is_wanted, part))

    async def _takes_others(self) -> bool:
        try:
            await self.probe()
        except Exception as error:
            log.warning("write.probe_failed", error=repr(error)[:300])
            return False
        return True
