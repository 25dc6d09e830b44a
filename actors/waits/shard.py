"""Hosts correlations: runs their turns and commits them in groups.

A turn runs at once if its correlation is in memory; otherwise the loader first activates the
correlation from its row, many in one query. The writer stores all changes since its last flush in
one statement, and then answers. Turns never wait, so a correlation handles one message at a time
without a lock.
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
        # Batches that are not answered yet, the oldest first, with their arrival times.
        self._unanswered: dict[Batch, float] = {}

    async def handle(self, messages: list[WaitMessage]) -> list[Reply]:
        """Handle a batch; return the replies once all changes are in Postgres."""
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
        """Forget idle correlations and absent feeds; return how many correlations."""
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

    def decide_again(self) -> None:
        """Decide unsaved changes again, because the database's clock has changed."""
        self._writer.decide_again()

    @property
    def stalled_seconds(self) -> float:
        """Return for how long the oldest batch has not been answered, in seconds."""
        oldest = next(iter(self._unanswered.values()), None)
        return 0.0 if oldest is None else self._environment.monotonic() - oldest

    @property
    def idle(self) -> bool:
        """Return whether this shard has no messages, activations or feeds."""
        return not (self._pending or len(self._activations) or len(self.feeds))

    def moment(self) -> TurnTime:
        """Return the time for all turns that follow without waiting in between."""
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

    async def load_forever(self) -> None:
        await self._loader.load_forever()

    def _reload(self, key: bytes, turns: list[Turn]) -> None:
        self._loader.load(key, turns)

    async def write_forever(self) -> None:
        """Flush the changes that were made during the last flush."""
        await self._writer.write_forever()


def limits_of(config: Config) -> WaitLimits:
    """Return the limits of one correlation from the configuration."""
    return WaitLimits(
        log_lines=config.log_limit,
        early_events=config.early_limit,
        early_bytes=config.early_bytes,
        result_bytes=config.result_limit,
    )
