"""A shard's mind: it hosts per-correlation actors, runs their turns and commits them in groups.

A message goes through three hands. Turns run at once for correlations in memory; the loader
activates the others from their rows, many in one query; the writer stores everything that changed
since its last flush in one statement and only then answers. Turns never wait, so a correlation
handles one message at a time without a lock.
"""

from typing import Any

from actors.messaging.pending import PendingMessages
from actors.waits.activation import Activation, Residents
from actors.waits.guard import Objections
from actors.waits.shard_flush import ShardWriter, Store, Surroundings
from actors.waits.shard_load import ShardLoader
from actors.waits.turn import Batch, Moment, Turn
from core.shared.config import Config
from core.waits.limits import WaitLimits
from core.waits.messages import Message, Register, Reply


class Shard:
    """Hosts the correlations whose keys hash to it."""

    def __init__(self, config: Config, store: Store, world: Surroundings) -> None:
        self._config = config
        self._store = store
        self._world = world
        self._residents = Residents(config.hot_limit, config.idle_after, config.hot_bytes)
        self._pending = PendingMessages(config.pending_limit, config.pending_bytes)
        self._limits = limits_of(config)
        self._writer = ShardWriter(config, store, world, self._residents, self._reload)
        self._writer.is_contested = lambda: self._pending.is_contested(world.monotonic())
        self._loader = ShardLoader(store, self._residents, self._writer, self)
        self._held = self._loader.held
        self.feeds = self._writer.feeds
        self.tally = self._writer.tally
        self.gathers = self._writer.gathers
        self._objections = Objections(config.log_limit, self.feeds, world.now(), config.token_grace)
        # Batches that are not answered yet, the oldest first, each with when it came.
        self._unanswered: dict[Batch, float] = {}

    async def handle(self, messages: list[Message]) -> list[Reply]:
        """Take a batch; the answers, once all of it is in Postgres."""
        moment = self.moment()
        taken, refused = self._pending.admit(messages, moment.monotonic)
        batch = Batch(len(messages))
        self._unanswered[batch] = moment.monotonic
        try:
            for index, message in enumerate(messages):
                if refused and message.address.tenant in refused:
                    batch.answer(index, refused[message.address.tenant])
                else:
                    self._accept(Turn(message, batch, index), moment)
            return await batch.done
        finally:
            del self._unanswered[batch]
            self._pending.release(taken)

    def snapshot(self) -> dict[str, Any]:
        """Counters, and how full it is now."""
        return {
            **self.tally.snapshot(),
            "hot": len(self._residents),
            "hot_bytes": self._residents.weight,
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

    def forget(self) -> None:
        """Forget what was read: Postgres may have lost it, or have been put back.

        Of what is not stored yet, the versions in the rows decide.
        """
        gone = self._residents.forget(self._writer.keys)
        self.tally.add("passivated", gone)

    def decide_again(self) -> None:
        """Decide again what is not stored yet: the database's time is another than was thought."""
        self._writer.decide_again()

    @property
    def stalled_seconds(self) -> float:
        """How long the oldest batch has been waiting for its rows to be read and committed."""
        oldest = next(iter(self._unanswered.values()), None)
        return 0.0 if oldest is None else self._world.monotonic() - oldest

    @property
    def idle(self) -> bool:
        """Whether nothing would be missed if this shard went away now."""
        return not (self._pending or len(self._residents) or len(self.feeds))

    # Turns

    def moment(self) -> Moment:
        """All turns that follow without a wait in between happen at one moment."""
        return Moment(self._world.now(), self._world.monotonic())

    def _accept(self, turn: Turn, moment: Moment) -> None:
        key, message = turn.key, turn.message
        if key in self._held:
            self._held[key].append(turn)
            return
        resident = self._residents.get(key, moment.monotonic)
        if not isinstance(message, Register):
            if resident is None:
                self._loader.load(key, (turn,))
            else:
                self.run(resident, turn, moment.now)
        elif resident is None and message.fresh and not turn.lost:
            # Nobody else has ever seen these ids: there is no row and no early event to read.
            resident = Activation.fresh(key, moment.monotonic)
            self._residents.add(resident)
            self.run(resident, turn, moment.now)
        elif resident is None or resident.lacks_spec:
            self._loader.load(key, (turn,))
        elif resident.lacks_early:
            self._loader.open(resident, turn)
        else:
            self.run(resident, turn, moment.now)

    def run(self, resident: Activation, turn: Turn, now: float) -> None:
        """One step of one correlation: read, decide, remember. Nothing here may wait."""
        before = resident.wait
        if before is not None:
            objection = self._objections.to(before, turn.message, now)
            if objection is not None:
                turn.answer(objection)
                if not self._writer.holds(turn.key):
                    self._residents.leave_if_at_rest(turn.key)
                return
        decision = resident.take(turn.message, now, self._limits)
        if before is None and decision.wait is not None:
            self._residents.weigh(resident)
        if decision.wait is not before or decision.parked:
            self._writer.add(turn, before, decision)
        elif self._writer.answer_unchanged(turn, decision.reply):
            self._residents.leave_if_at_rest(turn.key)

    # Activation and group commit

    async def load_forever(self) -> None:
        """Activate correlations from their rows."""
        await self._loader.load_forever()

    def _reload(self, key: bytes, turns: list[Turn]) -> None:
        self._loader.load(key, turns)

    async def write_forever(self) -> None:
        """Flush whatever gathered while the last flush was under way."""
        await self._writer.write_forever()


def limits_of(config: Config) -> WaitLimits:
    """What one correlation may hold, by the settings."""
    return WaitLimits(
        log_lines=config.log_limit,
        early_events=config.early_limit,
        early_bytes=config.early_bytes,
        result_bytes=config.result_limit,
    )
