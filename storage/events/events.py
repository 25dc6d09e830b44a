"""Events, and the jobs that are stored with them. Callers match events to subscriptions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import asyncpg
import msgspec

from core.dispatch.event_job import EventJob
from core.dispatch.job import JobKey
from core.events.event import (
    ANY,
    MAX_CLOCK_SKEW,
    Event,
    context_entry,
    context_pair,
    type_expression,
)
from core.shared.tsid import first_at
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

# Greater than any id.
AFTER_ALL_IDS = "~"

_encode = msgspec.json.Encoder().encode
_extensions = msgspec.json.Decoder(dict[str, Any])


class EventKey(NamedTuple):
    tenant: int
    event_id: str


class JobPosition(NamedTuple):
    """The position of a job in the queue, and its earliest delivery; 0 means at once."""

    position: int
    due: float


@dataclass(slots=True)
class FlushResult:
    """The new events of a flush, and the positions of their jobs."""

    stored: set[EventKey] = field(default_factory=set)
    jobs: dict[JobKey, JobPosition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter of events; None matches all. Times are those that senders gave."""

    type: str | None = None
    """A type, or a pattern with `*` for a part of a segment."""
    source: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    message_group: str | None = None
    context: tuple[tuple[str, str], ...] = ()
    since: float | None = None
    until: float | None = None

    @property
    def is_served(self) -> bool:
        """Return True if an index serves the filter, or if it matches nearly all events."""
        if self.context:
            return True
        is_exact = self.type is None or ANY not in self.type
        return is_exact and self == EventFilter(type=self.type, since=self.since)


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event in a listing: the size of its data instead of the data."""

    event: Event
    size: int | None


async def flush(
    conn: Connection | Pool, events: Iterable[Event], jobs: Sequence[EventJob]
) -> FlushResult:
    """Store events, and the jobs of the new ones, in the given order.

    Of two events with the same id, the first is stored.
    """
    # A fixed order prevents deadlocks between writers of the same events.
    ordered = sorted(events, key=lambda event: (event.tenant, event.deduplication_id or ""))
    flushed = FlushResult()
    for tenant, id_, position, due in await conn.fetch(
        Q["flush_events"], [_row(event) for event in ordered], jobs
    ):
        if position is None:
            flushed.stored.add(EventKey(tenant, id_))
        else:
            flushed.jobs[JobKey(tenant, id_)] = JobPosition(position, due or 0.0)
    return flushed


async def known(conn: Connection | Pool, events: Sequence[Event]) -> dict[EventKey, Event]:
    """Read the stored events with these ids, which may be earlier ones."""
    rows = await conn.fetch(
        Q["known_events"],
        [event.tenant for event in events],
        [event.event_id for event in events],
        [event.deduplication_id for event in events],
    )
    return {EventKey(row["tenant_id"], row["asked_id"]): _event(row) for row in rows}


async def known_jobs(conn: Connection | Pool, jobs: Sequence[JobKey]) -> dict[JobKey, JobPosition]:
    """Read the positions of those of these jobs that exist."""
    rows = await conn.fetch(
        Q["known_jobs"], [job.tenant for job in jobs], [job.job_id for job in jobs]
    )
    return {
        JobKey(row["tenant_id"], row["job_id"]): JobPosition(row["position"], row["due"] or 0.0)
        for row in rows
    }


async def read(pool: Pool, tenant: int, event_id: str) -> Event | None:
    row = await pool.fetchrow(Q["read_event"], tenant, event_id)
    return _event(row) if row else None


async def page(
    pool: Pool, tenant: int, chosen: EventFilter, before: str | None, limit: int
) -> ScanPage[ListedEvent, str]:
    """Read the next events of a listing, newest first, within one bounded scan."""
    is_pattern = chosen.type is not None and ANY in chosen.type
    # An event arrives at most this long before its stated time, so earlier rows cannot match.
    oldest = "" if chosen.since is None else first_at(chosen.since - MAX_CLOCK_SKEW)
    scanned_to = None
    if not chosen.is_served:
        place = (tenant, before or AFTER_ALL_IDS, oldest)
        scanned_to = await bounded_scan.scan_end(pool, "look_back_at_events", *place)
    rows = await pool.fetch(
        Q["list_events"],
        tenant,
        before or AFTER_ALL_IDS,
        scanned_to or oldest,
        None if is_pattern else chosen.type,
        type_expression(chosen.type) if chosen.type is not None and is_pattern else None,
        chosen.source,
        chosen.subject,
        chosen.correlation_id,
        chosen.message_group,
        [context_entry(*pair) for pair in chosen.context] or None,
        chosen.since,
        chosen.until,
        limit,
    )
    return ScanPage([ListedEvent(_event(row), row["size"]) for row in rows], scanned_to)


async def forget(pool: Pool, before: float, limit: int) -> int:
    """Delete events that arrived before this time and that no job needs; return how many."""
    return len(await pool.fetch(Q["forget_events"], first_at(before), limit))


def _row(event: Event) -> tuple[Any, ...]:
    *columns, context, extensions = msgspec.structs.astuple(event)
    return (
        *columns,
        [context_entry(*pair) for pair in context] or None,
        _encode(extensions).decode() if extensions else None,
    )


def _event(row: asyncpg.Record) -> Event:
    extensions = row["extensions"]
    changed = {
        "tenant": row["tenant_id"],
        "context": [context_pair(entry) for entry in row["context"] or ()],
        "extensions": _extensions.decode(extensions) if extensions else {},
    }
    return msgspec.convert({**row, **changed}, Event)
