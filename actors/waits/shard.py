"""A shard's mind: it hosts per-correlation actors, runs their turns and commits them in groups.

A message goes through three hands. Turns run at once for correlations in memory; the loader
activates the others from their rows, many in one query; the writer stores everything that changed
since its last flush in one statement and only then answers. Turns never wait, so a correlation
handles one message at a time without a lock.
"""

from typing import Any

from actors.waits.activation import Activation, ActivationCache
from actors.waits.guard import MessageGuard
from actors.waits.pending import PendingMessages
from actors.waits.shard_flush import ShardEnvironment, ShardPersistence, ShardWriter
from actors.waits.shard_load import ShardLoader
from actors.waits.turn import Batch, Turn, TurnTime
from core.shared.config import Config
from core.waits.limits import WaitLimits
from core.waits.messages import Register, Reply, WaitMessage


class Shard:
    """Hosts the correlations whose keys hash to it."""

    def __init__(
        self, config: Config, store: ShardPersistence, environment: ShardEnvironment
    ) -> None:
        self._config = config
        self._store = store
        self._environment = environment
        self._activations = ActivationCache(config.hot_limit, config.idle_after, config.hot_bytes)
        self._pending = PendingMessages(config.pending_limit, config.pending_bytes)
        self._limits = limits_of(config)
        self._writer = ShardWriter(config, store, environment, self._activations, self._reload)
        self._writer.is_contested = lambda: self._pending.is_contested(environment.monotonic())
        self._loader = ShardLoader(store, self._activations, self._writer, self)
        self._held = self._loader.held
        self.feeds = self._writer.feeds
        self.counters = self._writer.counters
        self.gathers = self._writer.gathers
        self._guard = MessageGuard(
            config.log_limit, self.feeds, environment.now(), config.token_grace
        )
        # Batches that are not answered yet, the oldest first, each with when it came.
        self._unanswered: dict[Batch, float] = {}

    async def handle(self, messages: list[WaitMessage]) -> list[Reply]:
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
            **self.counters.snapshot(),
            "hot": len(self._activations),
            "hot_bytes": self._activations.weight,
            "pending": len(self._pending),
            "pending_bytes": self._pending.size,
            "unsaved": len(self._writer),
            "watched": len(self.feeds),
            "gathers": self.gathers.snapshot(),
        }

    def passivate(self) -> int:
        """Passivate what is idle; called now and then."""
        self.feeds.forget_absent()
        gone = self._activations.passivate(self._writer.keys, self._environment.monotonic())
        self.counters.add("passivated", gone)
        return gone

    def forget(self) -> None:
        """Forget what was read: Postgres may have lost it, or have been put back.

        Of what is not stored yet, the versions in the rows decide.
        """
        gone = self._activations.forget(self._writer.keys)
        self.counters.add("passivated", gone)

    def decide_again(self) -> None:
        """Decide again what is not stored yet: the database's time is another than was thought."""
        self._writer.decide_again()

    @property
    def stalled_seconds(self) -> float:
        """How long the oldest batch has been waiting for its rows to be read and committed."""
        oldest = next(iter(self._unanswered.values()), None)
        return 0.0 if oldest is None else self._environment.monotonic() - oldest

    @property
    def idle(self) -> bool:
        """Whether nothing would be missed if this shard went away now."""
        return not (self._pending or len(self._activations) or len(self.feeds))

    # Turns

    def moment(self) -> TurnTime:
        """All turns that follow without a wait in between happen at one moment."""
        return TurnTime(self._environment.now(), self._environment.monotonic())

    def _accept(self, turn: Turn, moment: TurnTime) -> None:
        key, message = turn.key, turn.message
        if key in self._held:
            self._held[key].append(turn)
            return
        active = self._activations.get(key, moment.monotonic)
        if not isinstance(message, Register):
            if active is None:
                self._loader.load(key, (turn,))
            else:
                self.run(active, turn, moment.now)
        elif active is None and message.fresh and not turn.lost:
            # Nobody else has ever seen these ids: there is no row and no early event to read.
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
        """One step of one correlation: read, decide, remember. Nothing here may wait."""
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
