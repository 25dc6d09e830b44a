"""Hosts entities in a shard: runs the transitions of messages, loads what they read, stores them.

A message leads to a turn. Ready turns run in slices, with tenants taking turns. A turn that lacks
something waits in the loader, and later messages to the same address wait behind it. Nothing waits
within a turn, so no lock is needed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import structlog

from actors.entities.collection_cache import CollectionCache
from actors.entities.entity_loader import EntityLoader
from actors.entities.read_view import TurnView
from actors.entities.run_queue import RunQueue
from actors.entities.transaction_writer import (
    EntityEnvironment,
    EntityTables,
    FlushCounters,
    TransactionWriter,
)
from actors.entities.turn import EntityTurn
from core.shared.config import Config
from core.shared.entities import Apply, LoadRequest
from core.shared.errors import UnavailableError
from core.waits.messages import RefusalKind, RefusedReply, Reply

log = structlog.get_logger("shard")

Transitions: TypeAlias = Mapping[type[Any], Apply[Any]]
"""Which function decides a message, by the type of the message."""


class EntityParts(NamedTuple):
    """What a shard needs to host entities."""

    tables: EntityTables
    transitions: Transitions
    new_id: Callable[[], str]


SUSPECT_AFTER = 1.0
"""Seconds after which the sender of a message may have turned to another owner."""
SUSPECT_FOR = 5.0
"""Seconds after a freeze for which messages may be old ones."""
BEAT_EVERY = 0.5
"""Seconds between two checks of whether this process was frozen."""
_FAILED = RefusedReply(kind=RefusalKind.FAILED, detail="this message could not be decided")


class EntityHost:
    """Hosts the entities whose messages come to this shard."""

    def __init__(
        self,
        config: Config,
        parts: EntityParts,
        environment: EntityEnvironment,
        counters: FlushCounters,
    ) -> None:
        self._environment = environment
        self._transitions = parts.transitions
        self._new_id = parts.new_id
        self.collections = CollectionCache(environment.monotonic)
        self.writer = TransactionWriter(
            config, parts.tables, environment, self._decide_again, counters
        )
        self._queue = RunQueue(self._run, environment.monotonic)
        self._loader = self._new_loader(parts.tables)
        # Which messages have changed a record may take long to find, and others do not wait for it.
        self._slow_loader = self._new_loader(parts.tables)
        # The turns of an address from the one that has to wait on, in the order they came.
        self._lines: dict[bytes, deque[EntityTurn]] = {}
        # Until when messages are suspect, because the process was frozen when they came.
        self._suspect_until = float("-inf")
        # Turns that wait for the next flush.
        self._held_back: list[EntityTurn] = []
        self.writer.on_flushed = self._run_held_back

    def _new_loader(self, tables: EntityTables) -> EntityLoader:
        return EntityLoader(
            tables,
            self.collections,
            self._queue.add,
            self._refuse,
            self.writer.pause,
            lambda: self.writer.beginnings,
        )

    def accept(self, turn: EntityTurn) -> None:
        self._queue.add(turn)

    async def run_forever(self) -> None:
        """Run ready turns, load what others ask for, and store what was decided."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run_forever())
            group.create_task(self._loader.load_forever())
            group.create_task(self._slow_loader.load_forever())
            group.create_task(self.writer.write_forever())
            group.create_task(self._notice_freezes())

    async def _notice_freezes(self) -> None:
        """Suspect what was sent while the process was frozen: others may have handled it since."""
        while True:
            began = self._environment.monotonic()
            await asyncio.sleep(BEAT_EVERY)
            now = self._environment.monotonic()
            if now - began > BEAT_EVERY + SUSPECT_AFTER:
                self._suspect_until = now + SUSPECT_FOR

    def forget(self) -> None:
        """Forget what was read, because Postgres may have been restored from a backup."""
        self.collections.forget()

    def _run(self, turn: EntityTurn) -> None:
        line = self._lines.get(turn.key)
        if line is not None and line[0] is not turn:
            line.append(turn)
            return
        if self.writer.is_full(turn.message.address.ref):
            # Each change stores the whole document, so many small ones of a large one are much.
            self._lines.setdefault(turn.key, deque([turn]))
            self._held_back.append(turn)
            return
        is_late = self._environment.monotonic() - turn.came_at > SUSPECT_AFTER
        if is_late or turn.came_at < self._suspect_until:
            turn.is_suspect = True
        if turn.is_suspect and not turn.is_watched:
            turn.is_watched = True
            self.writer.watch(1)
        view = TurnView(self.writer, self.collections, turn)
        apply = self._transitions[type(turn.message)]
        try:
            decided = apply(turn.message, view, self._environment.now(), self._new_id)
            if isinstance(decided, LoadRequest):
                self._lines.setdefault(turn.key, deque([turn]))
                loader = self._slow_loader if turn.is_suspect else self._loader
                loader.load(turn, decided)
                return
            self.writer.add(turn, decided, view)
        except UnavailableError as error:
            turn.answer(RefusedReply(kind=RefusalKind.FAILED, detail=str(error)))
        except Exception:
            log.exception("shard.transition_failed", message=type(turn.message).__name__)
            turn.answer(_FAILED)
        self._leave(turn)

    def _run_held_back(self) -> None:
        turns, self._held_back = self._held_back, []
        for turn in turns:
            self._queue.add(turn)

    def _refuse(self, turn: EntityTurn, reply: Reply) -> None:
        turn.answer(reply)
        self._leave(turn)

    def _leave(self, turn: EntityTurn) -> None:
        """Let the next turn of the same address run."""
        if turn.is_watched:
            turn.is_watched = False
            self.writer.watch(-1)
        line = self._lines.get(turn.key)
        if line is None:
            return
        line.popleft()
        if line:
            self._queue.add(line[0])
        else:
            del self._lines[turn.key]

    def _decide_again(self, turns: list[EntityTurn]) -> None:
        # What was lost may have been decided by an outdated definition.
        for tenant in {turn.tenant for turn in turns}:
            self.collections.forget(tenant)
        for turn in turns:
            self._queue.add(turn)
