"""Counters as entities: small transitions, and tables that the test holds back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec

from actors.entities.entity_host import EntityHost, EntityParts
from actors.entities.turn import Batch, EntityTurn
from core.records.record import Record, RecordAddress
from core.shared.config import Config
from core.shared.entities import Entity, EntityRef, LoadRequest, ReadView, Transition
from storage.entities.loader import Loaded
from storage.entities.transactions import TransactionChange


def place(name: str, tenant: int = 1) -> RecordAddress:
    return RecordAddress(tenant, 1, name)


class Increment(msgspec.Struct, frozen=True, kw_only=True):
    """Add one to counters; the first is addressed. `reads` are only read."""

    counters: tuple[RecordAddress, ...]
    reads: tuple[RecordAddress, ...] = ()
    unchanged: bool = False
    rows: int = 0
    turn_id: str = "t"
    fresh: bool = False
    resent: bool = False
    weight: int = 100

    @property
    def address(self) -> RecordAddress:
        return self.counters[0]

    @property
    def turn_ids(self) -> tuple[str, ...]:
        return (self.turn_id,)


class Line(msgspec.Struct, frozen=True):
    """A row to append."""

    weight: int = 300


class Look(Increment, frozen=True, kw_only=True):
    """Read counters and change nothing."""


def increment(
    message: Increment, view: ReadView, now: float, new_id: Callable[[], str]
) -> Transition | LoadRequest:
    addresses = (*message.counters, *message.reads)
    request = view.missing(*(one.ref for one in addresses))
    if request is not None:
        return request
    values = [0 if (one := view.get(a.ref)) is None else one.version for a in addresses]
    if isinstance(message, Look):
        return Transition(reply=values)
    after = tuple(
        Record(address=address, version=value + 1, data={}, created_at=now, updated_at=now)
        for address, value in zip(message.counters, values, strict=False)
    )
    checked = tuple(one.ref for one in message.reads) if message.unchanged else ()
    rows = tuple(Line() for _ in range(message.rows))
    return Transition(reply=values[0] + 1, entities=after, unchanged=checked, rows=rows)


def broken(*_: Any) -> Transition:
    raise ZeroDivisionError("a mistake in a transition")


class Broken(Increment, frozen=True, kw_only=True):
    """A message whose transition fails."""


class Endless(Increment, frozen=True, kw_only=True):
    """A message whose transition always asks for more."""


def endless(
    message: Endless, view: ReadView, now: float, new_id: Callable[[], str]
) -> Transition | LoadRequest:
    return LoadRequest((place("more").ref,))


class Tables:
    """Stores counters by version. `let` holds flushes back, `let_load` loads."""

    def __init__(self) -> None:
        self.rows: dict[EntityRef[Any], Entity] = {}
        self.flushes: list[list[TransactionChange]] = []
        self.loads: list[list[EntityRef[Any]]] = []
        self.let = asyncio.Event()
        self.let.set()
        self.let_load = asyncio.Event()
        self.let_load.set()
        self.error: Exception | None = None
        self.most: int | None = None
        """How many fit into one load."""

    async def load(self, refs: Iterable[EntityRef[Any]]) -> Loaded:
        self.loads.append(list(refs))
        found = {ref: self.rows.get(ref) for ref in self.loads[-1][: self.most]}
        await self.let_load.wait()
        return found

    async def flush(self, changes: Sequence[TransactionChange]) -> set[int]:
        await self.let.wait()
        if self.error is not None:
            raise self.error
        self.flushes.append(list(changes))
        lost = {index for index, change in enumerate(changes) if not self._fits(change)}
        for index, change in enumerate(changes):
            if index not in lost:
                self.rows |= change.after
        return lost

    def _fits(self, change: TransactionChange) -> bool:
        return all(
            (0 if old is None else old.version) == (self.version(ref))
            for ref, old in change.before.items()
        )

    def version(self, ref: EntityRef[Any]) -> int:
        return self.rows[ref].version if ref in self.rows else 0

    async def probe(self) -> None:
        """Take rows, as ever."""


class Counters:
    """Counts by name."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def add(self, name: str, amount: float = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + amount

    def flush(self, rows: int, seconds: float) -> None:
        self.add("flushes")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def chance(self) -> float:
        return 0.5


class World:
    """A host of counters with its loops running."""

    def __init__(self, **config: Any) -> None:
        self.tables, self.clock, self.counters = Tables(), Clock(), Counters()
        transitions = {Increment: increment, Look: increment, Broken: broken, Endless: endless}
        parts = EntityParts(self.tables, transitions, lambda: "id")
        self.host = EntityHost(Config(dsn="", **config), parts, self.clock, self.counters)

    def send(self, *messages: Increment) -> "asyncio.Future[list[Any]]":
        batch = Batch(len(messages))
        for index, message in enumerate(messages):
            self.host.accept(EntityTurn(message, batch, index, self.clock.at))
        return batch.done

    async def idle(self) -> None:
        """Let everything run that can."""
        for _ in range(20):
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def running(**config: Any) -> AsyncIterator[World]:
    world = World(**config)
    loops = asyncio.create_task(world.host.run_forever())
    try:
        yield world
    finally:
        loops.cancel()
        await asyncio.gather(loops, return_exceptions=True)
