"""Stores events with their jobs: many callers, one statement at a time.

Events that arrive during a flush go into the next, so that order is kept and load makes flushes
larger, not more frequent. A caller is answered once its events are committed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import structlog
from msgspec.structs import replace

from core.dispatch.event_job import EventJob
from core.dispatch.job import JobKey, JobRef
from core.dispatch.subscription import Subscription
from core.events.event import Event
from core.shared.errors import InvalidError, MusterError, OverloadedError, UnavailableError
from core.shared.tenant_share import SharedLimit
from services.events.matcher import EventMatcher
from services.events.subscription_cache import SubscriptionCache
from services.shared.group_commit import GroupCommit
from services.shared.process import PendingRequest
from services.shared.progress import WorkProgress
from services.shared.retry import pause
from services.shared.split_write import SplitWrite
from storage.events.event_store import EventStore
from storage.events.events import EventKey, FlushResult, JobPosition
from storage.postgres.error_class import ErrorClass, error_class

log = structlog.get_logger("events")

FIRST_PAUSE = 0.05
# How often a conflicting event may be deleted in the moment it is looked up.
MAX_ROUNDS = 5
ROW_WEIGHT = 300

NotifyPools: TypeAlias = Callable[[Mapping[int, Sequence[JobRef]]], Awaitable[None]]


class StoredEvent(NamedTuple):
    """A stored event, or the earlier event with the same id."""

    event: Event
    duplicate: bool
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWriterLimits:
    """Limits of flushes and of the queue; times are in seconds."""

    flush_rows: int = 5_000
    flush_bytes: int = 8 * 1024 * 1024
    pending_rows: int = 50_000
    pending_bytes: int = 64 * 1024 * 1024
    max_jobs: int = 20_000
    """The maximum number of jobs of several events that are put together."""
    patience: float = 10.0
    max_pause: float = 1.0
    """The longest pause between two attempts."""


class _PutRequest(PendingRequest[list[StoredEvent]]):
    """The events and jobs of one caller, and the number of jobs per event."""

    __slots__ = ("counts", "events", "jobs", "rows", "tenant", "weight")

    def __init__(self, events: list[Event], jobs: list[EventJob], counts: list[int]) -> None:
        super().__init__()
        self.events = events
        self.jobs = jobs
        self.counts = counts
        self.tenant = events[0].tenant
        self.rows = len(events) + len(jobs)
        self.weight = ROW_WEIGHT * self.rows + sum(len(event.data or b"") for event in events)


class EventWriter:
    """Stores events in groups. It must be created in the loop that it runs in."""

    def __init__(
        self,
        store: EventStore,
        subscriptions: SubscriptionCache,
        new_id: Callable[[], str],
        notify_pools: NotifyPools,
        wanted: Callable[[Subscription, Event], bool],
        bounds: EventWriterLimits | None = None,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._notify_pools = notify_pools
        self._bounds = bounds or EventWriterLimits()
        self._matcher = EventMatcher(subscriptions, wanted, new_id, self._bounds.max_jobs)
        self._commit = GroupCommit(
            self._write,
            self._bounds.flush_rows,
            cost=lambda request: (request.rows, request.weight),
            max_cost=(self._bounds.flush_rows, self._bounds.flush_bytes),
        )
        self._rows = SharedLimit(self._bounds.pending_rows, whole_if_alone=True)
        self._weight = SharedLimit(self._bounds.pending_bytes, whole_if_alone=True)
        self.progress = WorkProgress()
        # Events are retried while a caller waits for them.
        self._split = SplitWrite(
            write=self._flush,
            settle=self._settle,
            refuse=self._refuse,
            probe=store.probe,
            pause=self._pause,
            is_wanted=lambda request: not request.abandoned,
        )

    async def put(self, events: list[Event]) -> list[StoredEvent]:
        """Store events in one transaction; return the result of each after the commit.

        Raises:
            OverloadedError: The queue is full; nothing was taken.
            UnavailableError: Not stored in time, as far as is known.
            InvalidError: The events have too many jobs for one transaction; send smaller batches.
        """
        if not events:
            return []
        request = _PutRequest(list(events), *await self._matcher.match(events))
        self._admit(request)
        return await request.result(self._bounds.patience, _late)

    async def close(self) -> None:
        await self._commit.close()
        for request in self._commit.waiting:
            request.fail(UnavailableError("shutting down"))
        self._store.close()

    def _admit(self, request: _PutRequest) -> None:
        bounds, now = self._bounds, time.monotonic()
        has_rows = self._rows.fits(request.tenant, request.rows, now)
        if self._commit.waiting and (
            self._rows.taken + request.rows > bounds.pending_rows
            or self._weight.taken + request.weight > bounds.pending_bytes
        ):
            raise OverloadedError("too many events wait to be stored")
        if not (has_rows and self._weight.fits(request.tenant, request.weight, now)):
            raise OverloadedError("too many events of this tenant wait to be stored")
        self._commit.add(request)
        self._rows.take(request.tenant, request.rows)
        self._weight.take(request.tenant, request.weight)

    async def _write(self, requests: list[_PutRequest]) -> None:
        for request in requests:
            self._rows.release(request.tenant, request.rows)
            self._weight.release(request.tenant, request.weight)
        self.progress.waits()
        try:
            await self._split.run(requests)
        except asyncio.CancelledError:
            for request in requests:
                request.fail(UnavailableError("shutting down"))
            raise
        finally:
            if not self._commit.waiting:
                self.progress.given_up()

    async def _pause(self, attempt: int, error: Exception) -> None:
        log.warning("events.flush_failed", error=type(error).__name__, attempt=attempt)
        await pause(attempt, base=FIRST_PAUSE, cap=self._bounds.max_pause)

    async def _refuse(self, request: _PutRequest, error: Exception) -> None:
        """Fail a request that Postgres refuses, so that it does not block the others."""
        log.error("events.refused", events=len(request.events), exc_info=error)
        if error_class(error) is ErrorClass.TIMEOUT:
            request.fail(_late())
        elif isinstance(error, MusterError):
            request.fail(error)
        else:
            request.fail(InvalidError("event", "one that Postgres can store; it refuses this one"))
        self.progress.done()

    async def _flush(
        self, requests: list[_PutRequest]
    ) -> tuple[FlushResult, dict[EventKey, Event]]:
        """Store all events; return the positions of jobs, and the earlier events of duplicates."""
        events, jobs = _contents(requests)
        flushed = await self._store.flush(events, jobs)
        known: dict[EventKey, Event] = {}
        for _ in range(MAX_ROUNDS):
            left = [event for event in events if not _is_settled(event, flushed, known)]
            if not left:
                return flushed, known
            known |= await self._store.known(left)
            taken = [event for event in left if _is_taken(event, known.get(_key(event)))]
            if taken:
                log.warning("events.id_taken", events=len(taken))
                for event in taken:
                    del known[_key(event)]
                self._renew_ids(requests, {_key(event) for event in taken})
                events, jobs = _contents(requests)
                left = [event for event in events if not _is_settled(event, flushed, known)]
            own = {key for key, event in known.items() if event.event_id == key.event_id}
            # An earlier flush stored these events, but its answer was lost; their jobs are stored
            # too.
            flushed.jobs |= await self._places(jobs, own)
            # The conflicting event may have been deleted since.
            gone = [event for event in left if _key(event) not in known]
            if gone:
                keys = {_key(event) for event in gone}
                theirs = [job for job in jobs if EventKey(job.event_tenant, job.event_id) in keys]
                more = await self._store.flush(gone, theirs)
                flushed.stored |= more.stored
                flushed.jobs |= more.jobs
        raise UnavailableError("the event could not be stored now")

    def _renew_ids(self, requests: Iterable[_PutRequest], taken: set[EventKey]) -> None:
        """Give new ids to events whose ids are taken by other events."""
        for request in requests:
            for at, event in enumerate(request.events):
                key = _key(event)
                if key in taken:
                    new = self._new_id()
                    request.events[at] = replace(event, event_id=new)
                    request.jobs = [
                        job._replace(event_id=new)
                        if (job.event_tenant, job.event_id) == key
                        else job
                        for job in request.jobs
                    ]

    async def _places(self, jobs: list[EventJob], of: set[EventKey]) -> dict[JobKey, JobPosition]:
        keys = [job.key for job in jobs if EventKey(job.event_tenant, job.event_id) in of]
        return await self._store.known_jobs(keys) if keys else {}

    async def _settle(
        self, requests: list[_PutRequest], written: tuple[FlushResult, dict[EventKey, Event]]
    ) -> None:
        flushed, known = written
        self.progress.done()
        for request in requests:
            if not request.abandoned:
                pairs = zip(request.events, request.counts, strict=True)
                request.future.set_result([_stored(event, count, known) for event, count in pairs])
        await self._tell_pools(requests, flushed)

    async def _tell_pools(self, requests: Iterable[_PutRequest], flushed: FlushResult) -> None:
        pools: dict[int, list[JobRef]] = {}
        for request in requests:
            sizes = {_key(event): len(event.data or b"") for event in request.events}
            for job in request.jobs:
                place = flushed.jobs.get(job.key)
                if place is not None:
                    size = sizes[EventKey(job.event_tenant, job.event_id)]
                    pools.setdefault(job.pool_no, []).append(job.job_ref(*place, size))
        if pools:
            try:
                await self._notify_pools(pools)
            except Exception:  # pools find the jobs in Postgres
                log.exception("events.not_handed_over", pools=len(pools))


def _key(event: Event) -> EventKey:
    return EventKey(event.tenant, event.event_id)


def _contents(requests: Iterable[_PutRequest]) -> tuple[list[Event], list[EventJob]]:
    events, jobs = [], []
    for request in requests:
        events += request.events
        jobs += request.jobs
    return events, jobs


def _is_taken(event: Event, first: Event | None) -> bool:
    """Return whether another event is stored under this event's id.

    `time` is not compared, because Postgres rounds it.
    """
    if first is None or first.event_id != event.event_id:
        return False
    return replace(first, time=event.time) != event


def _is_settled(event: Event, flushed: FlushResult, known: dict[EventKey, Event]) -> bool:
    key = _key(event)
    return key in flushed.stored or key in known


def _stored(event: Event, jobs: int, known: dict[EventKey, Event]) -> StoredEvent:
    first = known.get(_key(event)) if known else None
    if first is None or first.event_id == event.event_id:
        return StoredEvent(event, duplicate=False, jobs=jobs)
    return StoredEvent(first, duplicate=True, jobs=0)


def _late() -> UnavailableError:
    return UnavailableError("the event was not stored in time", 2)
