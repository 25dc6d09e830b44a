"""A shard's mind: it hosts per-correlation actors, runs their turns and commits them in groups.

A message goes through three hands. Turns run at once for correlations in memory; the loader
activates the others from their rows, many in one query; the writer stores everything that changed
since its last flush in one statement and only then answers. Turns never wait, so a correlation
handles one message at a time without a lock.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

from actors.activation import Activation, Residents
from actors.feed import Feeds
from actors.gather_tally import GatherTally
from actors.objections import Objections
from actors.tally import Tally
from actors.turn import Batch, Moment, Turn, Unsaved
from core.address import Address
from core.backoff import backoff
from core.config import Config
from core.judgement import Status
from core.messages import (
    Message,
    RefusalKind,
    Refused,
    Register,
    Reply,
)
from core.wait import Wait
from storage.journal import Change
from storage.waits import Loaded
from telemetry.logging import about

log = structlog.get_logger("shard")

MAX_RACES = 20


class Store(Protocol):
    """What a shard needs of Postgres."""

    # Errors after which the same call is worth another try.
    transient: tuple[type[Exception], ...]

    async def load(self, keys: Sequence[bytes]) -> dict[bytes, Loaded]:
        """All that is known of these keys."""
        ...

    async def flush(self, changes: Sequence[Change]) -> set[bytes]:
        """Write changes together; the keys whose row was kept."""
        ...

    async def correlation_of_node(self, address: Address, node_id: str) -> str | None:
        """Which correlation a node of this execution already has."""
        ...


class Surroundings(Protocol):
    """Time, chance and the timer: everything else a shard depends on."""

    def now(self) -> float:
        """The database's time."""
        ...

    def monotonic(self) -> float:
        """A local clock that never jumps."""
        ...

    def chance(self) -> float:
        """A number in [0, 1)."""
        ...

    def alarm(self, due: list[tuple[Address, float]]) -> None:
        """Tell the timer of deadlines it may not have seen."""
        ...

    def call_off(self, gathers: list[bytes]) -> None:
        """Tell the pools that nobody waits for these calls any more."""
        ...


class Shard:
    """Hosts the correlations whose keys hash to it."""

    def __init__(self, config: Config, store: Store, world: Surroundings) -> None:
        self._config = config
        self._store = store
        self._world = world
        self._residents = Residents(config.hot_limit, config.idle_after)
        self._strangers: dict[bytes, list[Turn]] = {}
        self._loading: dict[bytes, list[Turn]] = {}
        self._unsaved: dict[bytes, Unsaved] = {}
        self._in_flight: dict[bytes, Unsaved] = {}
        self._pending = 0
        self._to_load = asyncio.Event()
        self._to_write = asyncio.Event()
        # Asked once: a logger that says nothing still costs as much as a turn.
        self._tells_all = config.log_level.upper() == "DEBUG"
        self.feeds = Feeds(world.monotonic)
        self._objections = Objections(config.log_limit, self.feeds, world.now())
        self.tally = Tally()
        self.gathers = GatherTally()

    async def handle(self, messages: list[Message]) -> list[Reply]:
        """Take a batch; the answers, once all of it is in Postgres."""
        if self._pending + len(messages) > self._config.pending_limit:
            full = Refused(kind=RefusalKind.OVERLOADED, detail="this shard is behind; slow down")
            return [full] * len(messages)
        batch = Batch(len(messages))
        self._pending += len(messages)
        moment = self._moment()
        try:
            for index, message in enumerate(messages):
                self._accept(Turn(message, batch, index), moment)
            return await batch.done
        finally:
            self._pending -= len(messages)

    def snapshot(self) -> dict[str, Any]:
        """Counters, and how full it is now."""
        return {
            **self.tally.snapshot(),
            "hot": len(self._residents),
            "pending": self._pending,
            "unsaved": len(self._unsaved) + len(self._in_flight),
            "watched": len(self.feeds),
            "gathers": self.gathers.snapshot(),
        }

    def rest(self) -> int:
        """Passivate what is idle; called now and then."""
        self.feeds.forget_absent()
        unsaved = frozenset(self._unsaved) | frozenset(self._in_flight)
        gone = self._residents.passivate(unsaved, self._world.monotonic())
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
        if decision.wait is before and not decision.parked:
            self._answer_unchanged(turn, decision.reply)
            return
        unsaved = self._unsaved.get(turn.key)
        if unsaved is None:
            unsaved = Unsaved(turn.key, turn.message.address.tenant, before)
            self._unsaved[turn.key] = unsaved
        unsaved.fold(turn, decision, changed=decision.wait is not before)
        self._to_write.set()

    def _answer_unchanged(self, turn: Turn, reply: Reply) -> None:
        """An answer that rests on state not yet stored waits for that state."""
        holder = self._unsaved.get(turn.key) or self._in_flight.get(turn.key)
        if holder is not None:
            holder.turns.append((turn, reply))
            return
        self.tally.replies([(turn, reply)])
        turn.answer(reply)
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
        keys = list(self._loading)
        loaded = await self._persist(lambda: self._store.load(keys))
        self.tally.add("loads", len(keys))
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

    # Group commit

    async def write_forever(self) -> None:
        """Flush whatever gathered while the last flush was under way."""
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            while self._unsaved:
                await self._write_once()

    async def _write_once(self) -> None:
        self._in_flight = self._next_flush()
        changes = [unsaved.change for unsaved in self._in_flight.values()]
        started = self._world.monotonic()
        try:
            kept = await self._flush(changes)
        except Exception:
            log.exception("shard.flush_refused", rows=len(changes))
            kept = await self._write_one_by_one()
        self.tally.flush(len(changes), self._world.monotonic() - started)
        flushed, self._in_flight = self._in_flight, {}
        self._settle(flushed.values(), kept)

    def _next_flush(self) -> dict[bytes, Unsaved]:
        limit = self._config.flush_limit
        if len(self._unsaved) <= limit:
            chosen, self._unsaved = self._unsaved, {}
            return chosen
        keys = [key for key, _ in zip(self._unsaved, range(limit), strict=False)]
        return {key: self._unsaved.pop(key) for key in keys}

    async def _write_one_by_one(self) -> set[bytes]:
        """A row that Postgres will not take must not hold up the others."""
        kept: set[bytes] = set()
        for key, unsaved in list(self._in_flight.items()):
            try:
                kept |= await self._flush([unsaved.change])
            except Exception:
                log.exception("shard.row_refused", wait=key.hex())
                del self._in_flight[key]
                self._residents.drop(key)
                broken = Refused(kind=RefusalKind.BROKEN, detail="Postgres refuses this event")
                unsaved.refuse(broken)
                later = self._unsaved.pop(key, None)
                if later is not None:
                    later.refuse(broken)
        return kept

    def _settle(self, flushed: Iterable[Unsaved], kept: set[bytes]) -> None:
        near: list[tuple[Address, float]] = []
        cancelled: list[bytes] = []
        # Up to here the timer may have looked already.
        horizon = self._world.now() + 2 * self._config.timer_horizon
        for unsaved in flushed:
            key, before, wait = unsaved.change.key, unsaved.before, unsaved.change.wait
            if wait is not None:
                if key not in kept:
                    self._lost(unsaved)
                    continue
                self._count(unsaved, before, wait)
                if wait.ending is None:
                    if wait.due_at <= horizon and (before is None or before.due_at != wait.due_at):
                        near.append((wait.address, wait.due_at))
                elif _is_called_off(before, wait):
                    cancelled.append(key)
            self.tally.replies(unsaved.turns)
            unsaved.commit()
            self.feeds.changed(key)
            if key not in self._unsaved:
                self._residents.leave_if_at_rest(key)
        if near:
            self._world.alarm(near)
        if cancelled:
            self._world.call_off(cancelled)

    def _count(self, unsaved: Unsaved, before: Wait | None, wait: Wait) -> None:
        self.tally.stored(before, wait)
        if wait.spec.gather:
            self.gathers.stored(before, wait, unsaved.turns)
        if self._tells_all and wait.ending is not None:
            log.debug("wait.ended", status=wait.status, **about(wait.address))

    def _lost(self, unsaved: Unsaved) -> None:
        """Another owner moved the row on: forget, read it again, decide again."""
        key = unsaved.change.key
        self.tally.add("conflicts")
        log.info("wait.conflict", **about(unsaved.turns[0][0].message.address))
        self._residents.drop(key)
        later = self._unsaved.pop(key, None)
        for turn, _ in unsaved.turns + (later.turns if later else []):
            turn.lost += 1
            if turn.lost > MAX_RACES:
                turn.answer(Refused(kind=RefusalKind.OVERLOADED, detail="too many owners race"))
            else:
                self._strangers.setdefault(key, []).append(turn)
        self._to_load.set()

    async def _flush(self, changes: list[Change]) -> set[bytes]:
        kept: set[bytes] = await self._persist(lambda: self._store.flush(changes))
        return kept

    async def _persist(self, call: Callable[[], Any]) -> Any:
        """Go on trying while Postgres is away; callers wait, and new ones are refused by bound."""
        attempt = 0
        while True:
            try:
                return await call()
            except self._store.transient as error:
                self.tally.add("flush_failures")
                pause = backoff(attempt, base=0.05, cap=1.0, jitter=self._world.chance())
                log.warning("shard.database_away", error=type(error).__name__, attempt=attempt)
                attempt += 1
                await asyncio.sleep(pause)


def _is_called_off(before: Wait | None, wait: Wait) -> bool:
    """Whether this is the change that cancelled a gather; what is late changes it once more."""
    was_open = before is None or before.ending is None
    return was_open and wait.spec.gather and wait.status is Status.CANCELLED
