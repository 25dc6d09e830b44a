"""Writes events over a dedicated connection to Postgres."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from core.access.usage_counter import UsageCounter
from core.dispatch.event_job import EventJob
from core.dispatch.job import JobKey
from core.events.event import Event
from core.shared.quotas import StoredKind
from storage.events import events as table
from storage.events.events import EventKey, FlushResult, JobPosition
from storage.postgres.pool import Connection, PoolOptions, open_connection
from storage.postgres.trial_write import NOT_KEPT, rolled_back

T = TypeVar("T")


class EventStore:
    """Connects on first use, and again after the connection is lost."""

    def __init__(self, options: PoolOptions, usage: UsageCounter | None = None) -> None:
        self._options = options
        self._usage = usage or UsageCounter()
        self._conn: Connection | None = None

    async def flush(self, events: Sequence[Event], jobs: Sequence[EventJob]) -> FlushResult:
        flushed = await self._using(lambda conn: table.flush(conn, events, jobs))
        self._count(events, flushed)
        return flushed

    async def known(self, events: Sequence[Event]) -> dict[EventKey, Event]:
        return await self._using(lambda conn: table.known(conn, events))

    async def known_jobs(self, jobs: Sequence[JobKey]) -> dict[JobKey, JobPosition]:
        return await self._using(lambda conn: table.known_jobs(conn, jobs))

    async def probe(self) -> None:
        await self._using(_probe)

    def close(self) -> None:
        if self._conn is not None:
            self._conn.terminate()

    async def _using(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        if self._conn is None or self._conn.is_closed():
            self._conn = await open_connection(self._options)
        try:
            return await work(self._conn)
        except BaseException:
            # The connection's state is unknown now, even if the caller was only cancelled.
            self.close()
            self._conn = None
            raise

    def _count(self, events: Sequence[Event], flushed: FlushResult) -> None:
        for event in events:
            if EventKey(event.tenant, event.event_id) in flushed.stored:
                self._usage.add(event.tenant, StoredKind.EVENTS, 1, len(event.data or b""))
        for job in flushed.jobs:
            self._usage.add(job.tenant, StoredKind.JOBS, 1, 0)


async def _probe(conn: Connection) -> None:
    """Write an event and roll back; raise the error of Postgres or the driver if it fails."""
    event = Event(
        tenant=0,  # no tenant has this number
        event_id=uuid.uuid4().hex,
        type="probe",
        source="probe",
        time=0.0,
        data=b"{}",
        content_type="application/json",
    )
    async with rolled_back(conn):
        flushed = await table.flush(conn, [event], [])
    if not flushed.stored:
        raise OSError(NOT_KEPT)
