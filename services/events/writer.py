"""Events into Postgres, with a job for each who wants them: many callers, one statement at a time.

While one flush is under way the next gathers, so that order is kept and load makes flushes larger,
not more. Whoever puts an event is answered once it is committed.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import structlog
from msgspec.structs import replace

from core.dispatch.event_job import EventJob
from core.dispatch.job import JobKey, Pointer
from core.dispatch.subscription import Subscription
from core.events.event import Event
from core.shared.backoff import backoff
from core.shared.errors import InvalidError, MusterError, OverloadedError, UnavailableError
from core.shared.tenant_share import SharedLimit
from services.events.matcher import Matcher, Wishes
from services.shared.progress import Progress
from services.shared.split_write import SplitWrite
from storage.events.events import EventKey, Flushed, Place
from storage.postgres.error_class import ErrorClass, error_class

log = structlog.get_logger("events")

FIRST_PAUSE = 0.05
# How often an event may find what stands in its way gone the moment it looks.
MOST_ROUNDS = 5
ROW_WEIGHT = 300

HandOver: TypeAlias = Callable[[Mapping[int, Sequence[Pointer]]], Awaitable[None]]


class Store(Protocol):
    """What a writer needs of Postgres."""

    async def flush(self, events: Sequence[Event], jobs: Sequence[EventJob]) -> Flushed:
        """Store events and the jobs of those that are new, together."""
        ...

    async def known(self, events: Sequence[Event]) -> dict[EventKey, Event]:
        """What is stored in the place of these events."""
        ...

    async def known_jobs(self, jobs: Sequence[JobKey]) -> dict[JobKey, Place]:
        """Where these jobs stand, as far as they were made."""
        ...

    async def probe(self) -> None:
        """Raise what Postgres has against events of any content, if it takes none now."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Stored(NamedTuple):
    """What became of an event: itself, or the one that was known by the same id before."""

    event: Event
    duplicate: bool
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is written at once, how much may wait, and for how long, in seconds."""

    flush_rows: int = 5_000
    flush_bytes: int = 8 * 1024 * 1024
    pending_rows: int = 50_000
    pending_bytes: int = 64 * 1024 * 1024
    most_jobs: int = 20_000
    """That several events put together may make."""
    patience: float = 10.0
    longest_pause: float = 1.0
    """Between two tries."""


class _Parcel:
    """What one caller puts, with how many jobs each event has, and where the answer goes."""

    __slots__ = ("counts", "events", "future", "jobs", "rows", "tenant", "weight")

    def __init__(self, events: list[Event], jobs: list[EventJob], counts: list[int]) -> None:
        self.events = events
        self.jobs = jobs
        self.counts = counts
        self.tenant = events[0].tenant
        self.rows = len(events) + len(jobs)
        self.weight = ROW_WEIGHT * self.rows + sum(len(event.data or b"") for event in events)
        self.future: asyncio.Future[list[Stored]] = asyncio.get_running_loop().create_future()

    @property
    def abandoned(self) -> bool:
        """Its caller has stopped waiting."""
        return self.future.done()

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def abandon(self) -> None:
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()  # else asyncio complains that nobody looked


class EventWriter:
    """Stores events in groups. Made in the loop that it runs in."""

    def __init__(
        self,
        store: Store,
        wishes: Wishes,
        new_id: Callable[[], str],
        hand_over: HandOver,
        wanted: Callable[[Subscription, Event], bool],
        bounds: Bounds | None = None,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._hand_over = hand_over
        self._bounds = bounds or Bounds()
        self._matcher = Matcher(wishes, wanted, new_id, self._bounds.most_jobs)
        self._queue: deque[_Parcel] = deque()
        self._rows = SharedLimit(self._bounds.pending_rows, whole_if_alone=True)
        self._weight = SharedLimit(self._bounds.pending_bytes, whole_if_alone=True)
        self._draining: asyncio.Task[None] | None = None
        self.progress = Progress()
        # For as long as somebody waits for an event.
        self._split = SplitWrite(
            write=self._flush,
            settle=self._settle,
            refuse=self._refuse,
            probe=store.probe,
            pause=self._pause,
            is_wanted=lambda parcel: not parcel.abandoned,
        )

    async def put(self, events: list[Event]) -> list[Stored]:
        """Store events, all in one transaction; what became of each, which means it is committed.

        Raises:
            OverloadedError: Too much waits to be stored; nothing was taken.
            UnavailableError: Not stored in time, as far as is known.
            InvalidError: So many want so many events that they must come in smaller batches.
        """
        if not events:
            return []
        parcel = _Parcel(list(events), *await self._matcher.match(events))
        self._admit(parcel)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._bounds.patience, parcel.fail, _late())
        try:
            return await parcel.future
        finally:
            timer.cancel()
            parcel.abandon()

    async def close(self) -> None:
        """Stop; whoever still waits is told."""
        if self._draining is not None:
            self._draining.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._draining
        for parcel in self._queue:
            parcel.fail(UnavailableError("shutting down"))
        self._store.close()

    # Group commit

    def _admit(self, parcel: _Parcel) -> None:
        bounds, now = self._bounds, time.monotonic()
        has_rows = self._rows.fits(parcel.tenant, parcel.rows, now)
        if self._queue and (
            self._rows.taken + parcel.rows > bounds.pending_rows
            or self._weight.taken + parcel.weight > bounds.pending_bytes
        ):
            raise OverloadedError("too many events wait to be stored")
        if not (has_rows and self._weight.fits(parcel.tenant, parcel.weight, now)):
            raise OverloadedError("too many events of this tenant wait to be stored")
        self._queue.append(parcel)
        self._rows.take(parcel.tenant, parcel.rows)
        self._weight.take(parcel.tenant, parcel.weight)
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        parcels: list[_Parcel] = []
        try:
            while self._queue:
                parcels = self._next_flush()
                self.progress.waits()
                await self._split.run(parcels)
        except asyncio.CancelledError:
            for parcel in parcels:
                parcel.fail(UnavailableError("shutting down"))
            raise
        finally:
            # Here and not in a callback: a caller that puts again the moment it is answered runs
            # before any callback would, and would count on a task that has already ended.
            self._draining = None
            self.progress.given_up()

    def _next_flush(self) -> list[_Parcel]:
        bounds = self._bounds
        parcels: list[_Parcel] = []
        rows = weight = 0
        while self._queue:
            parcel = self._queue[0]
            too_many = rows + parcel.rows > bounds.flush_rows
            if parcels and (too_many or weight + parcel.weight > bounds.flush_bytes):
                break
            self._queue.popleft()
            self._rows.release(parcel.tenant, parcel.rows)
            self._weight.release(parcel.tenant, parcel.weight)
            parcels.append(parcel)
            rows += parcel.rows
            weight += parcel.weight
        return parcels

    async def _pause(self, attempt: int, error: Exception) -> None:
        log.warning("events.flush_failed", error=type(error).__name__, attempt=attempt)
        chance = random.random()  # noqa: S311  no secret
        longest = self._bounds.longest_pause
        await asyncio.sleep(backoff(attempt, base=FIRST_PAUSE, cap=longest, jitter=chance))

    async def _refuse(self, parcel: _Parcel, error: Exception) -> None:
        """An event that Postgres will not take must not hold up the others."""
        log.error("events.refused", events=len(parcel.events), exc_info=error)
        if error_class(error) is ErrorClass.TIMEOUT:
            parcel.fail(_late())
        elif isinstance(error, MusterError):
            parcel.fail(error)
        else:
            parcel.fail(InvalidError("event", "one that Postgres can store; it refuses this one"))
        self.progress.done()

    async def _flush(self, parcels: list[_Parcel]) -> tuple[Flushed, dict[EventKey, Event]]:
        """Store all; where their jobs stand, and what stands in the place of events not new."""
        events, jobs = _contents(parcels)
        flushed = await self._store.flush(events, jobs)
        known: dict[EventKey, Event] = {}
        for _ in range(MOST_ROUNDS):
            left = [event for event in events if not _is_settled(event, flushed, known)]
            if not left:
                return flushed, known
            known |= await self._store.known(left)
            taken = [event for event in left if _is_taken(event, known.get(_key(event)))]
            if taken:
                log.warning("events.id_taken", events=len(taken))
                for event in taken:
                    del known[_key(event)]
                self._renew_ids(parcels, {_key(event) for event in taken})
                events, jobs = _contents(parcels)
                left = [event for event in events if not _is_settled(event, flushed, known)]
            own = {key for key, event in known.items() if event.event_id == key.event_id}
            # Stored before, by a flush whose answer was lost: its jobs are there as well.
            flushed.jobs |= await self._places(jobs, own)
            # What stood in the way may have been forgotten since.
            gone = [event for event in left if _key(event) not in known]
            if gone:
                keys = {_key(event) for event in gone}
                theirs = [job for job in jobs if EventKey(job.event_tenant, job.event_id) in keys]
                more = await self._store.flush(gone, theirs)
                flushed.stored |= more.stored
                flushed.jobs |= more.jobs
        raise UnavailableError("the event could not be stored now")

    def _renew_ids(self, parcels: Iterable[_Parcel], taken: set[EventKey]) -> None:
        """Give other ids to events whose ids somebody else's event has."""
        for parcel in parcels:
            for at, event in enumerate(parcel.events):
                key = _key(event)
                if key in taken:
                    new = self._new_id()
                    parcel.events[at] = replace(event, event_id=new)
                    parcel.jobs = [
                        job._replace(event_id=new)
                        if (job.event_tenant, job.event_id) == key
                        else job
                        for job in parcel.jobs
                    ]

    async def _places(self, jobs: list[EventJob], of: set[EventKey]) -> dict[JobKey, Place]:
        keys = [job.key for job in jobs if EventKey(job.event_tenant, job.event_id) in of]
        return await self._store.known_jobs(keys) if keys else {}

    async def _settle(
        self, parcels: list[_Parcel], written: tuple[Flushed, dict[EventKey, Event]]
    ) -> None:
        flushed, known = written
        self.progress.done()
        for parcel in parcels:
            if not parcel.abandoned:
                pairs = zip(parcel.events, parcel.counts, strict=True)
                parcel.future.set_result([_stored(event, count, known) for event, count in pairs])
        await self._tell_pools(parcels, flushed)

    async def _tell_pools(self, parcels: Iterable[_Parcel], flushed: Flushed) -> None:
        pools: dict[int, list[Pointer]] = {}
        for parcel in parcels:
            sizes = {_key(event): len(event.data or b"") for event in parcel.events}
            for job in parcel.jobs:
                place = flushed.jobs.get(job.key)
                if place is not None:
                    size = sizes[EventKey(job.event_tenant, job.event_id)]
                    pools.setdefault(job.pool_no, []).append(job.pointer(*place, size))
        if pools:
            try:
                await self._hand_over(pools)
            except Exception:  # they are in Postgres, where pools look for themselves
                log.exception("events.not_handed_over", pools=len(pools))


def _key(event: Event) -> EventKey:
    return EventKey(event.tenant, event.event_id)


def _contents(parcels: Iterable[_Parcel]) -> tuple[list[Event], list[EventJob]]:
    events, jobs = [], []
    for parcel in parcels:
        events += parcel.events
        jobs += parcel.jobs
    return events, jobs


def _is_taken(event: Event, first: Event | None) -> bool:
    """Return True if what is stored under the event's own id is not this event.

    But for `time`, which Postgres rounds, all of it is stored as it came.
    """
    if first is None or first.event_id != event.event_id:
        return False
    return replace(first, time=event.time) != event


def _is_settled(event: Event, flushed: Flushed, known: dict[EventKey, Event]) -> bool:
    key = _key(event)
    return key in flushed.stored or key in known


def _stored(event: Event, jobs: int, known: dict[EventKey, Event]) -> Stored:
    first = known.get(_key(event)) if known else None
    if first is None or first.event_id == event.event_id:
        return Stored(event, duplicate=False, jobs=jobs)
    return Stored(first, duplicate=True, jobs=0)


def _late() -> UnavailableError:
    return UnavailableError("the event was not stored in time", 2)
