"""A message to an entity that a shard handles, and the batch it arrived in."""

import asyncio
from typing import Any

from core.shared.entities import Entity, EntityMessage, EntityRef


class Batch:
    """One call of a client, answered once all its messages are committed."""

    __slots__ = ("_open", "_replies", "done")

    def __init__(self, size: int) -> None:
        self._replies: list[Any] = [None] * size
        self._open = size
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def answer(self, index: int, reply: Any) -> None:
        self._replies[index] = reply
        self._open -= 1
        if self._open == 0 and not self.done.done():
            self.done.set_result([r for r in self._replies if r is not None])


class EntityTurn:
    """One message of a batch, and what was loaded for it.

    `rounds` counts how often something was loaded, and `lost` how often another owner was first.
    """

    __slots__ = (
        "batch", "came_at", "index", "is_suspect", "is_watched", "key", "loaded", "looked_at",
        "lost", "message", "rounds", "tenant",
    )  # fmt: skip

    def __init__(self, message: EntityMessage, batch: Batch, index: int, now: float) -> None:
        self.message = message
        self.key = message.address.key
        self.tenant = message.address.tenant
        self.batch = batch
        self.index = index
        self.came_at = now
        self.lost = 0
        # Whether it may have been stored before, without an answer.
        self.is_suspect = message.resent
        self.rounds = 0
        # Whether the writer remembers what is stored while this turn is decided.
        self.is_watched = False
        self.loaded: dict[EntityRef[Any], Entity | None] = {}
        # When it was read, by the writer's count, which changes of a record this turn has made.
        self.looked_at: dict[EntityRef[Any], int] = {}
        if message.fresh:
            self.loaded[message.address.ref] = None

    @property
    def suspect_ids(self) -> tuple[str, ...]:
        """The turn ids under which it may have been stored before."""
        return self.message.turn_ids if self.is_suspect else ()

    def answer(self, reply: Any) -> None:
        self.batch.answer(self.index, reply)

    def begin_again(self) -> None:
        """Forget what was loaded: another owner has changed it."""
        self.lost += 1
        self.is_suspect = True
        self.rounds = 0
        self.loaded = {}
        self.looked_at = {}
