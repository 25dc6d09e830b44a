"""Group commit: stores all changes of a shard's turns in one statement.

Changes that are made during a flush go into the next. A turn is answered once its flush is
committed. `GroupCommit` queues items; here the turns of one correlation are merged to one change.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

import structlog

from actors.entities.fair_flush import SharedFlush
from actors.messaging.change_feed import ChangeFeeds
from actors.waits.activation import ActivationCache
from actors.waits.counters import ShardCounters
from actors.waits.gather_counters import GatherCounters
from actors.waits.turn import Turn, Unsaved
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import RefusalKind, RefusedReply, Reply
from core.waits.state import Decision, Wait
from core.waits.strategy import Status
from services.shared.retry import log_outage, pause
from services.shared.split_write import SplitWrite
from storage.postgres.error_class import ErrorClass, error_class
from storage.waits.shard_store import ShardStore
from telemetry.logging import about

log = structlog.get_logger("shard")

MAX_RACES = 20
# The maximum size of a statement with more than one correlation.
FLUSH_BYTES = 8 * 1024 * 1024

_BROKEN = RefusedReply(kind=RefusalKind.BROKEN, detail="Postgres refuses this event")
_CONTENDED = RefusedReply(
    kind=RefusalKind.FAILED, detail=f"write conflict: gave up after {MAX_RACES} attempts"
)
_TOO_SLOW = RefusedReply(
    kind=RefusalKind.BROKEN,
    detail="Postgres cannot store this within its statement timeout; it is too much for one step",
)


class ShardEnvironment(Protocol):
    """Clocks, random numbers and other actors that a shard depends on."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def chance(self) -> float: ...

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None:
        """Send deadlines to the timer that it may not have read."""

    def cancel_calls(self, gathers: list[bytes]) -> None: ...


class ShardWriter:
    """Holds the changes of one shard until they are in Postgres.

    `reload` gets turns to decide again because another owner has changed their row.
    """

    def __init__(
        self,
        config: Config,
        store: ShardStore,
        environment: ShardEnvironment,
        activations: ActivationCache,
        reload: Callable[[bytes, list[Turn]], None],
    ) -> None:
        self._config = config
        self._store = store
        self._environment = environment
        self._activations = activations
        self._reload = reload
        self._unsaved: dict[bytes, Unsaved] = {}
        self._in_flight: dict[bytes, Unsaved] = {}
        self._to_write = asyncio.Event()
        self._split = SplitWrite(
            write=self._flush,
            settle=self._written,
            refuse=self._refuse,
            probe=store.probe,
            pause=self.pause,
        )
        # Computed once: a disabled logger costs as much as a turn.
        self._logs_endings = config.log_level.upper() == "DEBUG"
        self.feeds = ChangeFeeds(environment.monotonic)
        self.counters = ShardCounters()
        self.gathers = GatherCounters()
        # Whether the changes in flight were decided by a clock that was found wrong since.
        self._is_outdated = False
        self._shared = SharedFlush[Unsaved]()
        # Returns whether several tenants send.
        self.is_contested: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self._unsaved) + len(self._in_flight)

    @property
    def keys(self) -> frozenset[bytes]:
        return frozenset(self._unsaved) | frozenset(self._in_flight)

    def holds(self, key: bytes) -> bool:
        return key in self._unsaved or key in self._in_flight

    def add(self, turn: Turn, before: Wait | None, decision: Decision) -> None:
        """Add the decision of a turn to the next flush."""
        if not self._unsaved:
            self._to_write.set()  # otherwise the writer is awake already
        unsaved = self._unsaved.get(turn.key)
        if unsaved is None:
            unsaved = Unsaved(turn.key, turn.message.address.tenant, before)
            self._unsaved[turn.key] = unsaved
        unsaved.fold(turn, decision, changed=decision.wait is not before)

    def answer_unchanged(self, turn: Turn, reply: Reply) -> bool:
        """Answer a turn that changed nothing; return False if the answer has to wait.

        An answer that depends on unsaved changes waits for their commit.
        """
        holder = self._unsaved.get(turn.key) or self._in_flight.get(turn.key)
        if holder is not None:
            holder.turns.append((turn, reply))
            return False
        self.counters.replies([(turn, reply)])
        turn.answer(reply)
        return True

    async def write_forever(self) -> None:
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            while self._unsaved:
                await self._write_once()

    async def _write_once(self) -> None:
        self._is_outdated = False
        self._in_flight = self._next_flush()
        await self._split.run(list(self._in_flight.values()))

    def _next_flush(self) -> dict[bytes, Unsaved]:
        """Take the changes of the next flush, limited in rows and bytes, at least one."""
        if len(self._unsaved) > 1 and self.is_contested():
            chosen = self._shared.choose(self._unsaved.values(), self._config.flush_limit)
            return {one.change.key: self._unsaved.pop(one.change.key) for one in chosen}
        rows = weight = 0
        for unsaved in self._unsaved.values():
            weight += unsaved.weight
            if rows and (rows == self._config.flush_limit or weight > FLUSH_BYTES):
                break
            rows += 1
        if rows == len(self._unsaved):
            all_of_it, self._unsaved = self._unsaved, {}
            return all_of_it
        keys = list(islice(self._unsaved, rows))
        return {key: self._unsaved.pop(key) for key in keys}

    def decide_again(self) -> None:
        """Decide unsaved changes again by the current clock.

        Changes in flight are withdrawn only if their write fails.
        """
        self._is_outdated = bool(self._in_flight)
        for key in self._unsaved.keys() - self._in_flight.keys():
            self._reload(key, self._withdraw(self._unsaved.pop(key)))

    async def _flush(self, part: list[Unsaved]) -> set[bytes] | None:
        """Write changes; return the keys written, or None if they must be decided again first."""
        if self._is_outdated:
            return None
        started = self._environment.monotonic()
        kept = await self._store.flush([unsaved.change for unsaved in part])
        self.counters.flush(len(part), self._environment.monotonic() - started)
        return kept

    async def _written(self, part: list[Unsaved], kept: set[bytes] | None) -> None:
        if len(part) == len(self._in_flight):
            self._in_flight = {}
        else:
            for unsaved in part:
                del self._in_flight[unsaved.change.key]
        if kept is None:
            for unsaved in part:
                self._reload(unsaved.change.key, self._withdraw(unsaved))
        else:
            self._settle(part, kept)

    def _withdraw(self, unsaved: Unsaved) -> list[Turn]:
        """Drop the decisions of a correlation, including later ones; return its turns."""
        key = unsaved.change.key
        self._activations.drop(key)
        later = self._unsaved.pop(key, None)
        turns = unsaved.turns + (later.turns if later else [])
        return [turn for turn, _ in turns]

    async def _refuse(self, unsaved: Unsaved, error: Exception) -> None:
        """Refuse all turns of a change that cannot be stored."""
        key = unsaved.change.key
        log.error("shard.row_refused", wait=key.hex(), weight=unsaved.weight, exc_info=error)
        self.counters.add("rows_refused")
        del self._in_flight[key]
        is_slow = error_class(error) is ErrorClass.TIMEOUT
        for turn in self._withdraw(unsaved):
            turn.answer(_TOO_SLOW if is_slow else _BROKEN)

    async def pause(self, attempt: int, error: Exception) -> None:
        """Wait while Postgres is away; callers wait, and new ones are refused above a limit."""
        self.counters.add("flush_failures")
        log_outage(error, who="shard")
        await pause(attempt, chance=self._environment.chance)

    def _settle(self, flushed: Iterable[Unsaved], kept: set[bytes]) -> None:
        near: list[tuple[Address, float]] = []
        cancelled: list[bytes] = []
        # The timer may have read deadlines up to this time already.
        horizon = self._environment.now() + 2 * self._config.timer_horizon
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
            self.counters.replies(unsaved.turns)
            unsaved.commit()
            self.feeds.changed(key)
            if key not in self._unsaved:
                self._activations.drop_if_at_rest(key)
        if near:
            self._environment.arm_deadlines(near)
        if cancelled:
            self._environment.cancel_calls(cancelled)

    def _count(self, unsaved: Unsaved, before: Wait | None, wait: Wait) -> None:
        self.counters.stored(before, wait)
        if wait.spec.gather:
            self.gathers.stored(before, wait, unsaved.turns)
        if self._logs_endings and wait.ending is not None:
            log.debug("wait.ended", status=wait.status, **about(wait.address))

    def _lost(self, unsaved: Unsaved) -> None:
        """Reload a correlation whose row another owner has changed, and decide its turns again."""
        self.counters.add("conflicts")
        log.info("wait.conflict", **about(unsaved.turns[0][0].message.address))
        again: list[Turn] = []
        for turn in self._withdraw(unsaved):
            turn.lost += 1
            if turn.lost > MAX_RACES:
                turn.answer(_CONTENDED)
            else:
                again.append(turn)
        if again:
            self._reload(unsaved.change.key, again)


def _is_called_off(before: Wait | None, wait: Wait) -> bool:
    """Return whether this change cancelled a gather; a late event may change it again."""
    was_open = before is None or before.ending is None
    return was_open and wait.spec.gather and wait.status is Status.CANCELLED
