"""Makes events of the record changes that subscriptions follow.

A row of the outbox leaves once its event is stored with its jobs. After a crash in between, the
event is stored again under the same id, which changes nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from core.events.event import Event
from core.records.change_event import SOURCE, ChangedCollection, StoredChange, event_of
from core.shared.errors import InvalidError, TransientError
from core.shared.media_types import JSON
from services.shared.progress import WorkProgress
from services.shared.retry import Pauses, log_outage, retrying
from storage.postgres.error_class import DATABASE_ERRORS
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection
from storage.records import change_outbox, changes
from storage.records.change_outbox import ChangeEventRow

log = structlog.get_logger("change_events")

IDLE = 0.2
# Tenants take turns, so that none waits for the backlog of another.
TENANTS = 8
ROWS = 200
# The documents of a tenant that are read at once have about this many bytes together.
TENANT_BYTES = 1024 * 1024
_PAUSES = Pauses(base=0.1, cap=2.0)

PutEvents = Callable[[list[Event]], Awaitable[object]]


@dataclass(slots=True)
class ChangeEventCounters:
    """Counters since this process started."""

    stored: int = 0
    vanished: int = 0
    refused: int = 0
    postponed: int = 0


class ChangeEventRelay:
    """Stores events in the order of the changes of each record, at least once."""

    def __init__(
        self, pool: Pool, put: PutEvents, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._put = put
        self._after = 0  # the tenant that was read last
        self.counters = ChangeEventCounters()
        self.progress = WorkProgress(monotonic)

    async def run_forever(self, options: PoolOptions) -> None:
        """Claim the outbox and make events; start again after Postgres was away."""
        failed = partial(log_outage, who="change_events")
        await retrying(
            partial(self._run, options), errors=DATABASE_ERRORS, failed=failed, pauses=_PAUSES
        )

    async def _run(self, options: PoolOptions) -> None:
        conn = await open_connection(options)
        try:
            has_claim = False
            while True:
                # An earlier incarnation of this actor may still hold the claim.
                has_claim = has_claim or await change_outbox.claim_events(conn)
                if not has_claim or not await self.relay_some(conn):
                    await asyncio.sleep(IDLE)
        finally:
            conn.terminate()

    async def relay_some(self, conn: Connection) -> int:
        """Make events of the next changes of some tenants; return how many rows are done."""
        after = self._after
        rows = await change_outbox.next_events(conn, after, TENANTS, ROWS)
        if not rows and after:  # the last tenant was reached: begin with the first again
            rows = await change_outbox.next_events(conn, 0, TENANTS, ROWS)
        if not rows:
            self._after = 0
            self.progress.done()
            return 0
        self._after = max(rows)
        self.progress.waits()
        done = await asyncio.gather(*(self._relay(*one) for one in rows.items()))
        if any(done):
            self.progress.done()
        return sum(done)

    async def _relay(self, tenant: int, rows: Sequence[ChangeEventRow]) -> int:
        try:
            done = await self._store(rows)
            if done:
                await change_outbox.confirm_events(self._pool, tenant, done)
        except Exception as error:  # the rows stay, and other tenants do not wait for them
            self._postpone(tenant, error)
            return 0
        return len(done)

    async def _store(self, rows: Sequence[ChangeEventRow]) -> list[int]:
        """Store the events of the first rows; return the rows that are done."""
        found = await changes.read(self._pool, [row.change for row in rows], TENANT_BYTES)
        collections = await changes.read_collections(
            self._pool, {row.change.collection_no for row in rows}
        )
        done: list[int] = []
        events: list[tuple[ChangeEventRow, Event]] = []
        for row, change in zip(rows, found, strict=False):
            collection = collections.get(row.change.collection_no)
            if change is None or collection is None:
                log.warning("change_events.vanished", change=row.change)
                self.counters.vanished += 1
                done.append(row.outbox_id)
            else:
                try:
                    events.append((row, to_event(change, collection)))
                except ValueError as error:  # no document: it cannot become one later either
                    done.append(self._refuse(row, error))
        return done + await self._put_all(events)

    async def _put_all(self, events: Sequence[tuple[ChangeEventRow, Event]]) -> list[int]:
        """Store events together, or one by one if they do not fit into one transaction."""
        if not events:
            return []
        try:
            await self._put([event for _, event in events])
        except InvalidError as error:
            if len(events) == 1:
                return [self._refuse(events[0][0], error)]
            done: list[int] = []
            for one in events:
                stored = await self._put_all([one])
                if not stored:  # those behind it may be of the same record
                    break
                done += stored
            return done
        except TransientError as error:
            self._postpone(events[0][1].tenant, error)
            return []
        self.counters.stored += len(events)
        return [row.outbox_id for row, _ in events]

    def _refuse(self, row: ChangeEventRow, error: Exception) -> int:
        log.error("change_events.refused", change=row.change, error=str(error))
        self.counters.refused += 1
        return row.outbox_id

    def _postpone(self, tenant: int, error: Exception) -> None:
        log.warning("change_events.postponed", tenant=tenant, error=repr(error))
        self.counters.postponed += 1


def to_event(change: StoredChange, collection: ChangedCollection) -> Event:
    """Make the CloudEvent of a change; made again it is the same."""
    told = event_of(change, collection)
    return Event(
        tenant=change.tenant,
        event_id=told.event_id,
        type=told.type,
        source=SOURCE,
        subject=told.subject,
        time=change.at,
        data=told.encode(),
        content_type=JSON,
        deduplication_id=f"{SOURCE}:records/{told.event_id}",
        message_group=told.message_group,
    )
