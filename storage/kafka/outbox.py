"""The outbox: Kafka messages that a flush stored, deleted once the broker has them."""

from collections.abc import Sequence
from dataclasses import dataclass

from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class OutgoingRow:
    outbox_id: int
    tenant: int
    wait_key: bytes
    topic: str
    record_key: str
    event_type: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of unpublished messages, and the age of the oldest."""

    rows: int
    oldest: float


async def claim(conn: Connection, lock: AdvisoryLock = AdvisoryLock.RELAY) -> bool:
    """Take the lock of the single relay for the life of this connection; return True on success."""
    won: bool = await conn.fetchval(Q["claim_relay"], lock)
    return won


async def upcoming(
    conn: Connection, after: int, limit: int, without: Sequence[str] = ()
) -> list[OutgoingRow]:
    """Read the next messages in stored order, except those of the topics `without`."""
    rows = await conn.fetch(Q["next_outgoing"], after, limit, list(without))
    return [OutgoingRow(*row) for row in rows]


async def confirm(conn: Connection, outbox_ids: Sequence[int]) -> None:
    await conn.execute(Q["confirm_outgoing"], list(outbox_ids))


async def backlog(pool: Pool | Connection) -> Backlog:
    row = await pool.fetchrow(Q["outbox_backlog"])
    return Backlog(row["rows"], row["oldest"]) if row else Backlog(0, 0.0)
