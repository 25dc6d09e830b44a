"""Hosts entities: runs their turns and commits them in groups.

A turn runs at once if what it reads is in memory; otherwise a loader first reads it, many rows in
one query. A writer stores all changes since its last flush in one statement, and then answers.
Turns never wait, so an entity handles one message at a time without a lock.

Records are hosted by `actors.entities`, where a turn may change several entities in one
transaction. A turn of a wait changes one row and mostly finds it in memory. So waits have a loader
and a writer of their own, which keep the way of an event short.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from actors.entities.entity_host import EntityHost, EntityParts
from actors.entities.turn import Batch, EntityTurn
from actors.messaging.shard_messages import RECORD_MESSAGES, ShardMessage
from actors.waits.activation import Activation, ActivationCache
from actors.waits.guard import MessageGuard
from actors.waits.pending import PendingMessages
from actors.waits.shard_flush import ShardEnvironment, ShardWriter
from actors.waits.shard_load import ShardLoader
from actors.waits.turn import Turn, TurnTime
from core.shared.config import Config
from core.waits.limits import WaitLimits
from core.waits.messages import RefusalKind, RefusedReply, Register
from storage.waits.shard_store import ShardStore

_NO_ENTITIES = RefusedReply(kind=RefusalKind.BROKEN, detail="this shard hosts waits alone")


class Shard:
    """Hosts the correlations whose keys hash to it."""

    def __init__(
        self,
        config: Config,
        store: ShardStore,
        environment: ShardEnvironment,
        entities: EntityParts | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._environment = environment
        self._activations = ActivationCache(config.hot_limit, config.idle_after, config.hot_bytes)
        self._pending = PendingMessages(config.pending_limit, config.pending_bytes)
        self._limits = limits_of(config)
        self._writer = ShardWriter(config, store, environment, self._activations, self._reload)
        self._writer.is_contested = lambda: self._pending.is_contested(environment.monotonic())
        self._loader = ShardLoader(store, self._activations, self._writer, self.moment, self.run)
        self._waiting = self._loader.waiting
        self.feeds = self._writer.feeds
        self.counters = self._writer.counters
        self.gathers = self._writer.gathers
        self._guard = MessageGuard(
            config.log_limit, self.feeds, environment.now(), config.token_grace
        )
        self.entities: EntityHost | None = None
        if entities is not None:
            self.entities = EntityHost(config, entities, environment, self.counters)
            self.entities.writer.is_contested = self._writer.is_contested
        # Batches that are not answered yet, the oldest first, with their arrival times.
        self._unanswered: dict[Batch, float] = {}

    async def run_forever(self) -> None:
        """Load, decide and store, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loader.load_forever())
            group.create_task(self._writer.write_forever())
            if self.entities is not None:
                group.create_task(self.entities.run_forever())

    async def handle(self, messages: Sequence[ShardMessage]) -> list[Any]:
        """Handle a batch; return the replies once all changes are in Postgres."""
        moment = self.moment()
        taken, refused = self._pending.admit(messages, moment.monotonic)
        batch = Batch(len(messages))
        self._unanswered[batch] = moment.monotonic
        try:
            for index, message in enumerate(messages):
                if refused and message.address.tenant in refused:
                    batch.answer(index, refused[message.address.tenant])
                elif isinstance(message, RECORD_MESSAGES):
                    self._accept_entity(EntityTurn(message, batch, index, moment.monotonic))
                else:
                    self._accept(Turn(message, batch, index), moment)
            return await batch.done
        finally:
            del self._unanswered[batch]
            self._pending.release(taken)

    def snapshot(self) -> dict[str, Any]:
        return {
            **self.counters.snapshot(),
            "hot": len(self._activations),
            "hot_bytes": self._activations.weight,
            "pending": len(self._pending),
            "pending_bytes": self._pending.size,
            "unsaved": len(self._writer) + (len(self.entities.writer) if self.entities else 0),
            "watched": len(self.feeds),
            "gathers": self.gathers.snapshot(),
        }

    def passivate(self) -> int:
        self.feeds.forget_absent()
        gone = self._activations.passivate(self._writer.keys, self._environment.monotonic())
        self.counters.add("passivated", gone)
        return gone

    def forget(self) -> None:
        """Forget what was read, because Postgres may have been restored from a backup.

        Unsaved changes are checked against the versions of their rows.
        """
        gone = self._activations.forget(self._writer.keys)
        self.counters.add("passivated", gone)
        if self.entities is not None:
            self.entities.forget()

    def forget_collections(self, tenant: int | None) -> None:
        """Forget the collections of a tenant; of all for None and for the anchor tenant."""
        if self.entities is not None:
            self.entities.collections.forget(tenant or None)

    def decide_again(self) -> None:
        """Decide unsaved changes again by the current clock."""
        self._writer.decide_again()
        if self.entities is not None:
            self.entities.writer.decide_again()

    @property
    def stalled_seconds(self) -> float:
        """Return for how long the oldest batch has not been answered, in seconds."""
        oldest = next(iter(self._unanswered.values()), None)
        return 0.0 if oldest is None else self._environment.monotonic() - oldest

    @property
    def idle(self) -> bool:
        return not (self._pending or len(self._activations) or len(self.feeds))

    def moment(self) -> TurnTime:
        """Return the time for all turns that follow without waiting in between."""
        return TurnTime(self._environment.now(), self._environment.monotonic())

    def _accept_entity(self, turn: EntityTurn) -> None:
        if self.entities is None:
            turn.answer(_NO_ENTITIES)
        else:
            self.entities.accept(turn)

    def _accept(self, turn: Turn, moment: TurnTime) -> None:
        key, message = turn.key, turn.message
        if key in self._waiting:
            self._waiting[key].append(turn)
            return
        active = self._activations.get(key, moment.monotonic)
        if not isinstance(message, Register):
            if active is None:
                self._loader.load(key, (turn,))
            else:
                self.run(active, turn, moment.now)
        elif active is None and message.fresh and not turn.lost:
            # These ids were just created: there is no row and no early event to read.
            active = Activation.fresh(key, moment.monotonic)
            self._activations.add(active)
            self.run(active, turn, moment.now)
        elif active is None or active.lacks_spec:
            self._loader.load(key, (turn,))
        elif active.lacks_early:
            self._loader.open(active, turn)
        else:
            self.run(active, turn, moment.now)

    def run(self, active: Activation, turn: Turn, now: float) -> None:
        """Run one turn of a correlation. Nothing here may wait."""
        before = active.wait
        if before is not None:
            objection = self._guard.check(before, turn.message, now)
            if objection is not None:
                turn.answer(objection)
                if not self._writer.holds(turn.key):
                    self._activations.drop_if_at_rest(turn.key)
                return
        decision = active.apply(turn.message, now, self._limits)
        if before is None and decision.wait is not None:
            self._activations.update_weight(active)
        if decision.wait is not before or decision.parked:
            self._writer.add(turn, before, decision)
        elif self._writer.answer_unchanged(turn, decision.reply):
            self._activations.drop_if_at_rest(turn.key)

    def _reload(self, key: bytes, turns: list[Turn]) -> None:
        self._loader.load(key, turns)


def limits_of(config: Config) -> WaitLimits:
    return WaitLimits(
        log_lines=config.log_limit,
        early_events=config.early_limit,
        early_bytes=config.early_bytes,
        result_bytes=config.result_limit,
    )
