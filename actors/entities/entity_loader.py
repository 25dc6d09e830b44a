"""Reads what turns ask for, the requests of all waiting turns together."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from actors.entities.collection_cache import CollectionCache
from actors.entities.transaction_writer import EntityTables
from actors.entities.turn import EntityTurn
from core.shared.entities import EntityKind, EntityRef, LoadRequest
from core.waits.messages import RefusalKind, RefusedReply, Reply
from services.shared.split_write import SplitWrite
from storage.entities.loader import LOAD_BYTES, Loaded

log = structlog.get_logger("shard")

MAX_ROUNDS = 12
"""How often a turn may ask for more."""
LOAD_TURNS = 500
"""The most turns whose requests are read together."""

_UNREADABLE = RefusedReply(kind=RefusalKind.FAILED, detail="what is stored here cannot be read now")
_TOO_MUCH = RefusedReply(
    kind=RefusalKind.BROKEN, detail=f"this needs more than {MAX_ROUNDS} rounds of reading"
)
_TOO_LARGE = RefusedReply(
    kind=RefusalKind.BROKEN,
    detail=f"this needs more than {LOAD_BYTES >> 20} MB of stored records at once: send a request "
    "for fewer records",
)


class EntityLoader:
    """Holds turns that wait for entities.

    `run` gets a turn back once they are loaded, and `refuse` one whose entities cannot be read.
    """

    def __init__(
        self,
        store: EntityTables,
        collections: CollectionCache,
        run: Callable[[EntityTurn], None],
        refuse: Callable[[EntityTurn, Reply], None],
        pause: Callable[[int, Exception], Awaitable[None]],
        count: Callable[[], int],
    ) -> None:
        self._store = store
        self._collections = collections
        self._run = run
        self._refuse = refuse
        self._count = count
        self._waiting: list[tuple[EntityTurn, LoadRequest]] = []
        self._work = asyncio.Event()
        self._split = SplitWrite(
            write=self._read,
            settle=self._loaded,
            refuse=self._unreadable,
            probe=self._read_nothing,
            pause=pause,
        )

    def load(self, turn: EntityTurn, request: LoadRequest) -> None:
        turn.rounds += 1
        if turn.rounds > MAX_ROUNDS:
            self._refuse(turn, _TOO_MUCH)
            return
        self._waiting.append((turn, request))
        self._work.set()

    async def load_forever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._waiting:
                part = self._waiting[:LOAD_TURNS]
                del self._waiting[:LOAD_TURNS]
                await self._split.run(part)

    async def _read(self, part: list[tuple[EntityTurn, LoadRequest]]) -> tuple[Loaded, int]:
        refs: dict[EntityRef[Any], None] = {}
        for _, request in part:
            refs.update(dict.fromkeys(request.entities))
        changes, began = self._collections.changes, self._count()
        loaded = await self._store.load(refs)
        if changes == self._collections.changes:  # else a collection may have changed meanwhile
            self._collections.add({ref: one for ref, one in loaded.items() if ref.is_collection})
        return loaded, began

    async def _loaded(
        self, part: list[tuple[EntityTurn, LoadRequest]], found: tuple[Loaded, int]
    ) -> None:
        """Run the turns that have all they asked for; the others are read for again.

        The entities of the first turn come first: what it lacks was too much for it alone.
        """
        loaded, began = found
        cut = []
        for item in part:
            turn, request = item
            if any(ref not in loaded for ref in request.entities):
                cut.append(item)
                continue
            turn.loaded.update({ref: loaded[ref] for ref in request.entities})
            for ref in request.entities:
                if ref.kind is EntityKind.RECORD_TURN:
                    turn.looked_at[EntityRef(EntityKind.RECORD, ref.key[:3])] = began
            self._run(turn)
        if cut and cut[0] is part[0]:
            self._refuse(cut.pop(0)[0], _TOO_LARGE)
        self._waiting[:0] = cut

    async def _unreadable(self, item: tuple[EntityTurn, LoadRequest], error: Exception) -> None:
        turn, request = item
        log.error("shard.entity_unreadable", entities=str(request.entities)[:300], exc_info=error)
        self._refuse(turn, _UNREADABLE)

    async def _read_nothing(self) -> None:
        await self._store.load(())
