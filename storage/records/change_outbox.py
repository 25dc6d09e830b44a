"""The outboxes of record changes: what Kafka and subscriptions are still to be told of."""

from collections.abc import Sequence
from dataclasses import dataclass

from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.records.changes import ChangeKey

MAX_COUNTED = 20_000
"""A backlog of more changes of a tenant, or of Kafka messages, is counted as this many."""
MAX_COUNTED_TENANTS = 1_000


@dataclass(frozen=True, slots=True)
class ChangeMessageRow:
    """A change to publish to Kafka."""

    outbox_id: int
    change: ChangeKey
    topic: str

    @property
    def record_key(self) -> str:
        """The record: its changes are published in order, and no other record waits for them."""
        return f"{self.change.tenant}:{self.change.collection_no}:{self.change.record_id}"


@dataclass(frozen=True, slots=True)
class ChangeEventRow:
    """A change that becomes an event."""

    outbox_id: int
    change: ChangeKey


@dataclass(frozen=True, slots=True)
class ChangeBacklog:
    """The number of changes that others are still to be told of, and the age of the oldest.

    Large backlogs are counted up to a limit: a long outage must not make its own counting slow.
    """

    rows: int
    oldest: float


async def next_messages(
    conn: Connection, after: int, limit: int, without: Sequence[str] = ()
) -> list[ChangeMessageRow]:
    """Read the next changes to publish, except those of the topics `without`."""
    rows = await conn.fetch(Q["next_change_messages"], after, limit, list(without))
    return [ChangeMessageRow(outbox_id, ChangeKey(*key), topic) for outbox_id, *key, topic in rows]


async def confirm_messages(conn: Connection, outbox_ids: Sequence[int]) -> None:
    await conn.execute(Q["confirm_change_messages"], list(outbox_ids))


async def message_backlog(pool: Pool | Connection) -> ChangeBacklog:
    return await _backlog(pool, "change_outbox_backlog", MAX_COUNTED)


async def claim_events(conn: Connection) -> bool:
    """Take the lock of the one that makes events; it lasts as long as the connection."""
    won: bool = await conn.fetchval(Q["claim_relay"], AdvisoryLock.CHANGE_EVENTS)
    return won


async def next_events(
    conn: Connection, after_tenant: int, tenants: int, limit: int
) -> dict[int, list[ChangeEventRow]]:
    """Read the next changes of some tenants with higher numbers, `limit` of each at most."""
    found: dict[int, list[ChangeEventRow]] = {}
    for tenant, outbox_id, *key in await conn.fetch(
        Q["next_change_events"], after_tenant, tenants, limit
    ):
        found.setdefault(tenant, []).append(ChangeEventRow(outbox_id, ChangeKey(tenant, *key)))
    return found


async def confirm_events(conn: Connection | Pool, tenant: int, outbox_ids: Sequence[int]) -> None:
    await conn.execute(Q["confirm_change_events"], tenant, list(outbox_ids))


async def event_backlog(pool: Pool | Connection) -> ChangeBacklog:
    return await _backlog(pool, "event_outbox_backlog", MAX_COUNTED, MAX_COUNTED_TENANTS)


async def _backlog(pool: Pool | Connection, query: str, *limits: int) -> ChangeBacklog:
    row = await pool.fetchrow(Q[query], *limits)
    return ChangeBacklog(row["rows"], row["oldest"]) if row else ChangeBacklog(0, 0.0)
