"""Group commit of transactions: all since the last flush in one statement.

`ShardWriter` does the same for waits. Their turns touch one row each, so a change is keyed by its
correlation and nothing has to be merged, which keeps the path of events short.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Protocol

import structlog

from actors.entities.fair_flush import SharedFlush
from actors.entities.read_view import TurnView
from actors.entities.transaction import Transaction
from actors.entities.turn import EntityTurn
from core.shared.config import Config
from core.shared.entities import Entity, EntityRef, Transition
from core.waits.messages import RefusalKind, RefusedReply
from services.shared.retry import log_outage, pause
from services.shared.split_write import SplitWrite
from storage.entities.loader import Loaded
from storage.entities.transactions import TransactionChange
from storage.postgres.error_class import ErrorClass, error_class, is_duplicate

log = structlog.get_logger("shard")

MAX_RACES = 20
# The maximum size of a statement with more than one transaction.
FLUSH_BYTES = 8 * 1024 * 1024

_BROKEN = RefusedReply(kind=RefusalKind.BROKEN, detail="Postgres refuses what this would store")
_CONTENDED = RefusedReply(
    kind=RefusalKind.FAILED, detail=f"write conflict: gave up after {MAX_RACES} attempts"
)
_TOO_SLOW = RefusedReply(
    kind=RefusalKind.BROKEN,
    detail="Postgres cannot store this within its statement timeout; it is too much for one step",
)


class EntityTables(Protocol):
    """The entities that are stored."""

    async def load(self, refs: Iterable[EntityRef[Any]]) -> Loaded: ...

    async def flush(self, changes: list[TransactionChange]) -> set[int]: ...

    async def probe(self) -> None: ...


class FlushCounters(Protocol):
    """Counts what the writer does."""

    def add(self, name: str, amount: float = 1) -> None: ...

    def flush(self, rows: int, seconds: float) -> None: ...


class EntityEnvironment(Protocol):
    """Clocks and random numbers that entities depend on."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def chance(self) -> float: ...


class TransactionWriter:
    """Holds transactions until they are in Postgres.

    `decide` gets turns to decide again because another owner was first.
    """

    def __init__(
        self,
        config: Config,
        store: EntityTables,
        environment: EntityEnvironment,
        decide: Callable[[list[EntityTurn]], None],
        counters: FlushCounters,
    ) -> None:
        self._config = config
        self._store = store
        self._environment = environment
        self._decide = decide
        self._counters = counters
        self._unsaved: dict[Transaction, None] = {}
        self._holders: dict[EntityRef[Any], Transaction] = {}
        self._in_flight: dict[EntityRef[Any], Transaction] = {}
        # Since when each entity is held without a break, as a count of such beginnings.
        self._held_since: dict[EntityRef[Any], int] = {}
        self.beginnings = 0
        # The changes that were stored while turns look for what they have changed before.
        self._watchers = 0
        self._landed: set[tuple[EntityRef[Any], str]] = set()
        self._to_write = asyncio.Event()
        self._split = SplitWrite(
            write=self._flush,
            settle=self._settle,
            refuse=self._refuse,
            probe=store.probe,
            pause=self.pause,
        )
        # Whether the transactions in flight were decided by a clock that was found wrong since.
        self._is_outdated = False
        self._shared = SharedFlush[Transaction]()
        # Called after each flush.
        self.on_flushed: Callable[[], None] = lambda: None
        # Returns whether several tenants send.
        self.is_contested: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self._unsaved)

    def holds(self, ref: EntityRef[Any]) -> bool:
        return ref in self._holders or ref in self._in_flight

    def latest(self, ref: EntityRef[Any]) -> Entity | None:
        """Return the latest state of an entity that it holds."""
        return self._holder(ref).latest(ref)

    def is_full(self, ref: EntityRef[Any]) -> bool:
        """Return whether the unsaved changes of an entity are as much as one flush may store."""
        holder = self._holders.get(ref)
        return holder is not None and holder.weight > FLUSH_BYTES

    def held_since(self, ref: EntityRef[Any]) -> int:
        """Return the count of `beginnings` with which the entity began to be held."""
        return self._held_since[ref]

    def watch(self, change: int) -> None:
        """Remember what is stored from now on, for one turn more (1) or less (-1)."""
        self._watchers += change
        if not self._watchers:
            self._landed.clear()

    def has_changed(self, ref: EntityRef[Any], turn_id: str) -> bool:
        """Return whether a message has changed a record, as far as this writer remembers."""
        if (ref, turn_id) in self._landed:
            return True
        holders = (self._holders.get(ref), self._in_flight.get(ref))
        return any(one is not None and (ref, turn_id) in one.record_turns() for one in holders)

    def _holder(self, ref: EntityRef[Any]) -> Transaction:
        return self._holders.get(ref) or self._in_flight[ref]

    def add(self, turn: EntityTurn, transition: Transition, view: TurnView) -> None:
        """Store a transition with the next flush; answer one that stores nothing.

        What it read of states that are not stored yet, it relies on: it is stored and answered
        after them, or lost with them.
        """
        relied = {ref: state for ref, state in view.reads.items() if self.holds(ref)}
        if not transition.entities and not transition.rows:
            holders = {self._holder(ref) for ref in relied}
            if not holders:
                turn.answer(transition.reply)
                return
            if len(holders) == 1:
                holders.pop().turns.append((turn, transition.reply))
                return
        written = (*(one.ref for one in transition.entities), *transition.unchanged)
        relied |= {ref: view.get(ref) for ref in written}
        relied |= {ref: state for ref, state in view.reads.items() if ref.is_collection}
        transaction = self._joined(turn.tenant, relied)
        transaction.rely_on(relied)
        transaction.add(turn, transition)
        for ref in relied:
            if not ref.is_collection:
                self._hold(ref, transaction)

    def _hold(self, ref: EntityRef[Any], transaction: Transaction) -> None:
        self._holders[ref] = transaction
        if ref not in self._held_since:
            self.beginnings += 1
            self._held_since[ref] = self.beginnings

    def _joined(self, tenant: int, refs: Iterable[EntityRef[Any]]) -> Transaction:
        """Return one transaction for all unsaved ones that hold one of these entities."""
        found = list(dict.fromkeys(self._holders[ref] for ref in refs if ref in self._holders))
        if not found:
            if not self._unsaved:
                self._to_write.set()
            transaction = Transaction(tenant)
            self._unsaved[transaction] = None
            return transaction
        largest = max(found, key=lambda one: len(one.change.before))
        for other in found:
            if other is not largest:
                largest.absorb(other)
                del self._unsaved[other]
                self._holders |= dict.fromkeys(other.refs, largest)
        return largest

    async def write_forever(self) -> None:
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            while self._unsaved:
                self._is_outdated = False
                await self._split.run(self._next_flush())
                self.on_flushed()

    def _next_flush(self) -> list[Transaction]:
        """Take the transactions of the next flush, limited in number and bytes, at least one."""
        chosen = self._choose()
        for transaction in chosen:
            self._release(transaction)
            self._in_flight |= dict.fromkeys(transaction.refs, transaction)
        return chosen

    def _choose(self) -> list[Transaction]:
        limit = self._config.flush_limit
        if len(self._unsaved) > 1 and self.is_contested():
            return self._shared.choose(self._unsaved, limit)
        weight = count = 0
        for transaction in self._unsaved:
            weight += transaction.weight
            if count and (count == limit or weight > FLUSH_BYTES):
                break
            count += 1
        return list(islice(self._unsaved, count))

    def _release(self, transaction: Transaction) -> None:
        del self._unsaved[transaction]
        for ref in transaction.refs:
            del self._holders[ref]

    def decide_again(self) -> None:
        """Decide unsaved transactions again by the current clock.

        Those in flight, and those that rely on them, are withdrawn only if their write fails.
        """
        self._is_outdated = bool(self._in_flight)
        for transaction in list(self._unsaved):
            if not any(ref in self._in_flight for ref in transaction.refs):
                self._release(transaction)
                self._let_go(transaction)
                self._decide([turn for turn, _ in transaction.turns])

    async def _flush(self, part: list[Transaction]) -> set[int] | None:
        """Write; return which were lost, or None if they must be decided again first."""
        if self._is_outdated:
            return None
        started = self._environment.monotonic()
        lost = await self._store.flush([one.change for one in part])
        self._counters.flush(len(part), self._environment.monotonic() - started)
        return lost

    async def _settle(self, part: list[Transaction], lost: set[int] | None) -> None:
        for index, transaction in enumerate(part):
            if lost is None:
                self._decide(self._withdraw(transaction))
            elif index in lost:
                self._lose(transaction)
            else:
                self._land(transaction)
                if self._watchers:
                    self._landed |= transaction.record_turns()
                transaction.commit()

    async def _refuse(self, transaction: Transaction, error: Exception) -> None:
        """Refuse all turns of a transaction that cannot be stored, or lose it to a duplicate."""
        if is_duplicate(error):
            self._lose(transaction)
            return
        log.error("shard.transaction_refused", weight=transaction.weight, exc_info=error)
        self._counters.add("rows_refused")
        is_slow = error_class(error) is ErrorClass.TIMEOUT
        for turn in self._withdraw(transaction):
            turn.answer(_TOO_SLOW if is_slow else _BROKEN)

    def _lose(self, transaction: Transaction) -> None:
        """Decide the turns of a transaction again: another owner has changed an entity of it."""
        self._counters.add("conflicts")
        log.info("shard.transaction_lost", turns=len(transaction.turns))
        again: list[EntityTurn] = []
        for turn in self._withdraw(transaction):
            turn.begin_again()
            if turn.lost > MAX_RACES:
                turn.answer(_CONTENDED)
            else:
                again.append(turn)
        self._decide(again)

    def _withdraw(self, transaction: Transaction) -> list[EntityTurn]:
        """Drop a transaction and those that rely on it; return their turns."""
        self._land(transaction)
        later = [self._holders[ref] for ref in transaction.refs if ref in self._holders]
        turns = [turn for turn, _ in transaction.turns]
        for dependent in dict.fromkeys(later):
            self._release(dependent)
            self._let_go(dependent)
            turns += [turn for turn, _ in dependent.turns]
        return turns

    def _land(self, transaction: Transaction) -> None:
        for ref in transaction.refs:
            del self._in_flight[ref]
        self._let_go(transaction)

    def _let_go(self, transaction: Transaction) -> None:
        """Note which of its entities are not held any more."""
        for ref in transaction.refs:
            if not self.holds(ref):
                self._held_since.pop(ref, None)

    async def pause(self, attempt: int, error: Exception) -> None:
        """Wait while Postgres is away; callers wait, and new ones are refused above a limit."""
        self._counters.add("flush_failures")
        log_outage(error, who="shard")
        await pause(attempt, chance=self._environment.chance)
