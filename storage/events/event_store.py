"""Postgres as a writer of events sees it: one held connection, used by one at a time."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from core.dispatch.event_job import EventJob
from core.dispatch.job import JobKey
from core.events.event import Event
from core.shared.usage_counter import UsageCounter
from storage.access.usage_counts import count_events
from storage.events import events as table
from storage.events.events import EventKey, FlushResult, JobPosition
from storage.postgres.pool import Connection, PoolOptions, open_connection
from storage.postgres.probe import probe_events

T = TypeVar("T")


class EventStore:
    """Connects when first used, and again after Postgres was away."""

    def __init__(self, options: PoolOptions, usage: UsageCounter | None = None) -> None:
        self._options = options
        self._usage = usage or UsageCounter()
        self._conn: Connection | None = None

    async def flush(self, events: Sequence[Event], jobs: Sequence[EventJob]) -> FlushResult:
        """Store events and the jobs of those that are new, together."""
        flushed = await self._using(lambda conn: table.flush(conn, events, jobs))
        count_events(self._usage, events, flushed)
        return flushed

    async def known(self, events: Sequence[Event]) -> dict[EventKey, Event]:
        """What is stored in the place of these events."""
        return await self._using(lambda conn: table.known(conn, events))

    async def known_jobs(self, jobs: Sequence[JobKey]) -> dict[JobKey, JobPosition]:
        """Where these jobs stand, as far as they were made."""
        return await self._using(lambda conn: table.known_jobs(conn, jobs))

    async def probe(self) -> None:
        """Raise what Postgres has against events of any content, if it takes none now."""
        await self._using(probe_events)

    def close(self) -> None:
        """Let go of the connection."""
        if self._conn is not None:
            self._conn.terminate()

    async def _using(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        if self._conn is None or self._conn.is_closed():
            self._conn = await open_connection(self._options)
        try:
            return await work(self._conn)
        except BaseException:
            # Its state is unknown now, also if nobody waits any more: never use it again.
            self.close()
            self._conn = None
            raise
