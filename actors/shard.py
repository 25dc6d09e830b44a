"""A shard's mind: it hosts per-correlation actors, runs their turns and commits them in groups.

A message goes through three hands. Turns run at once for correlations in memory; the loader
activates the others from their rows, many in one query; the writer stores everything that changed
since its last flush in one statement and only then answers. Turns never wait, so a correlation
handles one message at a time without a lock.
"""

import asyncio
from typing import Any

import structlog

from actors.activation import Activation, Residents
from actors.objections import Objections
from actors.pending import PendingMessages
from actors.shard_flush import ShardWriter, Store, Surroundings
from actors.turn import Batch, Moment, Turn
from core.config import Config
from core.messages import (
    Message,
    Offer,
    RefusalKind,
    Refused,
    Register,
    Reply,
)
from storage.waits import Loaded, LoadRequest

log = structlog.get_logger("shard")


class Shard:
    """Hosts the correlations whose keys hash to it."""

    def __init__(self, config: Config, store: Store, world: Surroundings) -> None:
        self._config = config
        self._store = store
        self._world = world
        self._residents = Residents(config.hot_limit, config.idle_after)
        self._strangers: dict[bytes, list[Turn]] = {}
        self._loading: dict[bytes, list[Turn]] = {}
        self._pending = PendingMessages(config.pending_limit, config.pending_bytes)
        self._to_load = asyncio.Event()
        self._writer = ShardWriter(config, store, world, self._residents, self._reload)
        self.feeds = self._writer.feeds
        self.tally = self._writer.tally
        self.gathers = self._writer.gathers
        self._objections = Objections(config.log_limit, self.feeds, world.now())

    async def handle(self, messages: list[Message]) -> list[Reply]:
        """Take a batch; the answers, once all of it is in Postgres."""
        moment = self._moment()
        taken, refused = self._pending.admit(messages, moment.monotonic)
        batch = Batch(len(messages))
        try:
            for index, message in enumerate(messages):
                if refused and message.address.tenant in refused:
                    batch.answer(index, refused[message.address.tenant])
                else:
                    self._accept(Turn(message, batch, index), moment)
            return await batch.done
        finally:
            self._pending.release(taken)

    def snapshot(self) -> dict[str, Any]:
        """Counters, and how full it is now."""
        return {
            **self.tally.snapshot(),
            "hot": len(self._residents),
            "pending": len(self._pending),
            "pending_bytes": self._pending.size,
            "unsaved": len(self._writer),
            "watched": len(self.feeds),
            "gathers": self.gathers.snapshot(),
        }

    def rest(self) -> int:
        """Passivate what is idle; called now and then."""
        self.feeds.forget_absent()
        gone = self._residents.passivate(self._writer.keys, self._world.monotonic())
        self.tally.add("passivated", gone)
        return gone

    @property
    def idle(self) -> bool:
        """Whether nothing would be missed if this shard went away now."""
        return not (self._pending or len(self._residents) or len(self.feeds))

    # Turns

    def _moment(self) -> Moment:
        """All turns that follow without a wait in between happen at one moment."""
        return Moment(self._world.now(), self._world.monotonic())

    def _accept(self, turn: Turn, moment: Moment) -> None:
        if turn.key in self._loading:
            self._loading[turn.key].append(turn)
            return
        resident = self._residents.get(turn.key, moment.monotonic)
        if resident is None and self._is_unheard_of(turn):
            resident = Activation.of(turn.key, Loaded(), moment.monotonic)
            self._residents.add(resident)
        if resident is None:
            self._strangers.setdefault(turn.key, []).append(turn)
            self._to_load.set()
        else:
            self._turn(resident, turn, moment.now)

    def _is_unheard_of(self, turn: Turn) -> bool:
        """Nobody else has ever seen these ids, so there is no row and no early event to read."""
        message = turn.message
        return (
            isinstance(message, Register)
            and message.fresh
            and not turn.lost
            and turn.key not in self._strangers
        )

    def _turn(self, resident: Activation, turn: Turn, now: float) -> None:
        """One step of one correlation: read, decide, remember. Nothing here may wait."""
        before = resident.wait
        if before is not None:
            objection = self._objections.to(before, turn.message, now)
            if objection is not None:
                turn.answer(objection)
                return
        decision = resident.take(turn.message, now)
        if decision.wait is not before or decision.parked:
            self._writer.add(turn, before, decision)
        elif self._writer.answer_unchanged(turn, decision.reply):
            self._residents.leave_if_at_rest(turn.key)

    # Activation

    async def load_forever(self) -> None:
        """Activate correlations from their rows, all that gathered in one query."""
        while True:
            await self._to_load.wait()
            self._to_load.clear()
            self._loading, self._strangers = self._strangers, {}
            try:
                await self._load_once()
            except Exception:
                log.exception("shard.load_failed")
                self._abandon_loading()

    async def _load_once(self) -> None:
        requests = [_load_request(key, turns) for key, turns in self._loading.items()]
        loaded = await self._writer.persist(lambda: self._store.load(requests))
        self.tally.add("loads", len(requests))
        taken = await self._nodes_taken(loaded)
        moment = self._moment()
        while self._loading:
            key, turns = self._loading.popitem()
            resident = Activation.of(key, loaded[key], moment.monotonic)
            for turn in turns:
                # Each time: one at rest leaves after a turn that changed nothing, and what the
                # next turn then decided would be unknown to those that come after it.
                self._residents.add(resident)
                refusal = taken.get((key, turn.message.turn_id)) or self._refuse_impostor(
                    resident, turn
                )
                if refusal is None:
                    self._turn(resident, turn, moment.now)
                else:
                    turn.answer(refusal)

    async def _nodes_taken(self, loaded: dict[bytes, Loaded]) -> dict[tuple[bytes, str], Refused]:
        """Registrations that lost although there is no such wait: their node is another's."""
        taken: dict[tuple[bytes, str], Refused] = {}
        for key, turns in self._loading.items():
            for turn in turns:
                message = turn.message
                if not isinstance(message, Register) or not turn.lost or loaded[key].wait:
                    continue
                existing = await self._store.correlation_of_node(message.address, message.node_id)
                if existing is not None:
                    detail = (
                        f"node {message.node_id} of {message.address.execution_id} waits already"
                    )
                    taken[key, message.turn_id] = Refused(
                        kind=RefusalKind.CONFLICT, detail=detail, existing=existing
                    )
        return taken

    def _refuse_impostor(self, resident: Activation, turn: Turn) -> Refused | None:
        """Two addresses can share a key only by a forged hash collision: let neither in."""
        if resident.wait is None or resident.wait.address == turn.message.address:
            return None
        return Refused(kind=RefusalKind.CONFLICT, detail="these ids collide with others")

    def _abandon_loading(self) -> None:
        refusal = Refused(kind=RefusalKind.OVERLOADED, detail="could not be loaded; try again")
        for turns in self._loading.values():
            for turn in turns:
                turn.answer(refusal)
        self._loading.clear()

    def _reload(self, key: bytes, turns: list[Turn]) -> None:
        self._strangers.setdefault(key, []).extend(turns)
        self._to_load.set()

    # Group commit

    async def write_forever(self) -> None:
        """Flush whatever gathered while the last flush was under way."""
        await self._writer.write_forever()


def _load_request(key: bytes, turns: list[Turn]) -> LoadRequest:
    has_event = any(isinstance(turn.message, Offer) for turn in turns)
    return LoadRequest(key, turns[0].message.address.tenant, has_event)
