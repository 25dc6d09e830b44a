"""A writer of events whose tables are of Python: a flush may be held, and may fail."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from core.dispatch.event_job import EventJob
from core.dispatch.job import ANCHOR, JobKey, JobRef
from core.dispatch.subscription import Subscription
from core.events.event import Event
from services.events.writer import EventWriter, EventWriterLimits, StoredEvent
from storage.events.events import EventKey, FlushResult, JobPosition
from tests.support.happenings import new_id


class FakeEventTables:
    """The two tables, as far as a writer sees them. A flush may be held, and may fail."""

    def __init__(self) -> None:
        self.events: dict[EventKey, Event] = {}
        self.once: dict[tuple[int, str], EventKey] = {}
        self.jobs: dict[JobKey, JobPosition] = {}
        self.flushes: list[int] = []
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.refuses: Callable[[Event], bool] = lambda _event: False
        self.forgetful = False
        self.takes_nothing: Exception | None = None
        self.closed = False

    async def probe(self) -> None:
        if self.takes_nothing:
            raise self.takes_nothing

    async def flush(self, events: Sequence[Event], jobs: Sequence[EventJob]) -> FlushResult:
        self.flushes.append(len(events))
        self.begun.set()
        await self.open.wait()
        if self.before:
            raise self.before.pop(0)
        if any(map(self.refuses, events)):
            raise ValueError("a value that cannot be stored")
        flushed = FlushResult()
        for one in sorted(events, key=lambda one: (one.tenant, one.deduplication_id or "")):
            self._store(one, flushed)
        for job in jobs:
            if EventKey(job.event_tenant, job.event_id) in flushed.stored:
                place = JobPosition(len(self.jobs), float(job.delay_seconds))
                self.jobs[job.key] = flushed.jobs[job.key] = place
        if self.after:
            raise self.after.pop(0)
        return flushed

    def _store(self, one: Event, flushed: FlushResult) -> None:
        key = EventKey(one.tenant, one.event_id)
        once = (one.tenant, one.deduplication_id or one.event_id)
        if key not in self.events and once not in self.once:
            self.events[key], self.once[once] = one, key
            flushed.stored.add(key)

    async def known(self, events: Sequence[Event]) -> dict[EventKey, Event]:
        if self.forgetful:
            self.forgetful = False
            self.events.clear()
            self.once.clear()
        found = {}
        for one in events:
            key = self.once.get((one.tenant, one.deduplication_id or one.event_id))
            if key is not None:
                found[EventKey(one.tenant, one.event_id)] = self.events[key]
        return found

    async def known_jobs(self, jobs: Sequence[JobKey]) -> dict[JobKey, JobPosition]:
        return {job: self.jobs[job] for job in jobs if job in self.jobs}

    def close(self) -> None:
        self.closed = True


class WriterFixture:
    """A writer with everything around it."""

    def __init__(self, *wishes: Subscription, **bounds: Any) -> None:
        self.table = FakeEventTables()
        self.wishes = wishes
        self.asked: list[tuple[int, str]] = []
        self.told: list[tuple[int, JobRef]] = []
        self.informed = asyncio.Event()
        self.hand_over_fails = False
        self.writer = EventWriter(
            self.table, self, new_id, self.hand_over, self.wanted, EventWriterLimits(**bounds)
        )

    async def matching(self, tenant: int, type_: str) -> tuple[Subscription, ...]:
        self.asked.append((tenant, type_))
        return tuple(one for one in self.wishes if one.tenant in (tenant, ANCHOR))

    def wanted(self, by: Subscription, what: Event) -> bool:
        return what.subject == by.filter

    async def hand_over(self, jobs: Mapping[int, Sequence[JobRef]]) -> None:
        if self.hand_over_fails:
            raise RuntimeError("the pools are away")
        self.told += [(pool, one) for pool, pointers in jobs.items() for one in pointers]
        self.informed.set()

    async def put_each(self, *events: Event) -> list[StoredEvent]:
        """As many callers, in this order."""
        answers = await asyncio.gather(*(self.writer.put([one]) for one in events))
        return [one for (one,) in answers]
