"""Group commit: store what a shard's turns changed, all that gathered in one statement.

While one flush is under way the next gathers. Whoever waits for a turn is answered once the flush
that holds it is committed.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

import structlog

from actors.messaging.change_feed import ChangeFeeds
from actors.waits.activation import ActivationCache
from actors.waits.counters import ShardCounters
from actors.waits.fair_flush import SharedFlush
from actors.waits.gather_counters import GatherCounters
from actors.waits.turn import Turn, Unsaved
from core.shared.address import Address
from core.shared.backoff import backoff
from core.shared.config import Config
from core.waits.messages import RefusalKind, RefusedReply, Reply
from core.waits.spec import WaitSpec
from core.waits.state import Decision, ParkedEvent, Wait
from core.waits.strategy import Status
from services.shared.split_write import SplitWrite
from storage.postgres.error_class import ErrorClass, error_class
from storage.waits.flush import WaitChange
from storage.waits.waits import LoadedWait, LoadRequest
from telemetry.logging import about

log = structlog.get_logger("shard")

MAX_RACES = 20
# What one statement carries at most, if it is more than one correlation.
FLUSH_BYTES = 8 * 1024 * 1024

_BROKEN = RefusedReply(kind=RefusalKind.BROKEN, detail="Postgres refuses this event")
_CONTENDED = RefusedReply(
    kind=RefusalKind.FAILED, detail=f"write conflict: gave up after {MAX_RACES} attempts"
)
_TOO_SLOW = RefusedReply(
    kind=RefusalKind.BROKEN,
    detail="Postgres cannot store this within its statement timeout; it is too much for one step",
)


class ShardPersistence(Protocol):
    """What a shard needs of Postgres."""

    async def load(self, requests: Sequence[LoadRequest]) -> dict[bytes, LoadedWait]:
        """All that is known of these keys."""
        ...

    async def load_early(self, keys: Sequence[bytes]) -> dict[bytes, list[ParkedEvent]]:
        """The events that came before a registration, as many as it takes up."""
        ...

    async def flush(self, changes: Sequence[WaitChange]) -> set[bytes]:
        """Write changes together; the keys whose row was kept."""
        ...

    async def probe(self) -> None:
        """Raise what Postgres has against rows of any content, if it takes none now."""
        ...

    async def restore_spec(self, tenant: int, spec: WaitSpec, last_deadline: float) -> None:
        """Store a spec again that is not there any more."""
        ...

    async def correlation_of_node(self, address: Address, node_id: str) -> str | None:
        """Which correlation a node of this execution already has."""
        ...


class ShardEnvironment(Protocol):
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

    def arm_deadlines(self, due: list[tuple[Address, float]]) -> None:
        """Tell the timer of deadlines it may not have seen."""
        ...

    def cancel_calls(self, gathers: list[bytes]) -> None:
        """Tell the pools that nobody waits for these calls any more."""
        ...


class ShardWriter:
    """Holds the changes of one shard until they are in Postgres.

    `reload` gets the turns whose row another owner moved on, to be decided again.
    """

    def __init__(
        self,
        config: Config,
        store: ShardPersistence,
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
        # Asked once: a logger that says nothing still costs as much as a turn.
        self._tells_all = config.log_level.upper() == "DEBUG"
        self.feeds = ChangeFeeds(environment.monotonic)
        self.counters = ShardCounters()
        self.gathers = GatherCounters()
        # Whether what is in flight was decided by a time that was found wrong since.
        self._is_outdated = False
        self._shared = SharedFlush()
        # Whether several tenants send.
        self.is_contested: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        """How many correlations have changes that are not stored."""
        return len(self._unsaved) + len(self._in_flight)

    @property
    def keys(self) -> frozenset[bytes]:
        """The correlations whose changes are not stored."""
        return frozenset(self._unsaved) | frozenset(self._in_flight)

    def holds(self, key: bytes) -> bool:
        """Whether a correlation has changes that are not stored."""
        return key in self._unsaved or key in self._in_flight

    def add(self, turn: Turn, before: Wait | None, decision: Decision) -> None:
        """Store what a turn decided, with the next flush."""
        if not self._unsaved:
            self._to_write.set()  # else the writer knows already
        unsaved = self._unsaved.get(turn.key)
        if unsaved is None:
            unsaved = Unsaved(turn.key, turn.message.address.tenant, before)
            self._unsaved[turn.key] = unsaved
        unsaved.fold(turn, decision, changed=decision.wait is not before)

    def answer_unchanged(self, turn: Turn, reply: Reply) -> bool:
        """Answer a turn that changed nothing; False if the answer waits for unsaved changes.

        An answer that rests on state not yet stored waits for that state.
        """
        holder = self._unsaved.get(turn.key) or self._in_flight.get(turn.key)
        if holder is not None:
            holder.turns.append((turn, reply))
            return False
        self.counters.replies([(turn, reply)])
        turn.answer(reply)
        return True

    async def write_forever(self) -> None:
        """Flush whatever gathered while the last flush was under way."""
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
        """What fits in one flush, in rows and in bytes; one correlation always does."""
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
        """Let all that is not stored be decided by the time that is true now.

        What is in flight is left to its write: only if that fails is it taken back.
        """
        self._is_outdated = bool(self._in_flight)
        for key in self._unsaved.keys() - self._in_flight.keys():
            self._reload(key, self._withdraw(self._unsaved.pop(key)))

    async def _flush(self, part: list[Unsaved]) -> set[bytes] | None:
        """Write these; returns which were kept, or None if they must be decided again first."""
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
        """Forget what a correlation's turns decided, later ones as well; the turns."""
        key = unsaved.change.key
        self._activations.drop(key)
        later = self._unsaved.pop(key, None)
        turns = unsaved.turns + (later.turns if later else [])
        return [turn for turn, _ in turns]

    async def _refuse(self, unsaved: Unsaved, error: Exception) -> None:
        """Tell everyone whose turns are in a change that cannot be stored, now or later."""
        key = unsaved.change.key
        log.error("shard.row_refused", wait=key.hex(), weight=unsaved.weight, exc_info=error)
        self.counters.add("rows_refused")
        del self._in_flight[key]
        self._activations.drop(key)
        is_slow = error_class(error) is ErrorClass.TIMEOUT
        refusal = _TOO_SLOW if is_slow else _BROKEN
        unsaved.refuse(refusal)
        later = self._unsaved.pop(key, None)
        if later is not None:
            later.refuse(refusal)

    async def pause(self, attempt: int, error: Exception) -> None:
        """Wait while Postgres is away; callers wait, and new ones are refused by bound."""
        self.counters.add("flush_failures")
        pause = backoff(attempt, base=0.05, cap=1.0, jitter=self._environment.chance())
        log.warning("shard.database_away", error=type(error).__name__, attempt=attempt)
        await asyncio.sleep(pause)

    def _settle(self, flushed: Iterable[Unsaved], kept: set[bytes]) -> None:
        near: list[tuple[Address, float]] = []
        cancelled: list[bytes] = []
        # Up to here the timer may have looked already.
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
        if self._tells_all and wait.ending is not None:
            log.debug("wait.ended", status=wait.status, **about(wait.address))

    def _lost(self, unsaved: Unsaved) -> None:
        """Another owner moved the row on: forget, read it again, decide again."""
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
    """Whether this is the change that cancelled a gather; what is late changes it once more."""
    was_open = before is None or before.ending is None
    return was_open and wait.spec.gather and wait.status is Status.CANCELLED
