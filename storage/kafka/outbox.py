"""What is to be published: rows that a flush wrote and that leave when the broker has them."""

from collections.abc import Sequence
from dataclasses import dataclass

from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

_LOCK = 0x6D75_7375  # any constant of our own


@dataclass(frozen=True, slots=True)
class OutgoingRow:
    """One event to publish."""

    outbox_id: int
    tenant: int
    wait_key: bytes
    topic: str
    record_key: str
    event_type: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much waits, and how long the oldest has."""

    rows: int
    oldest: float


async def claim(conn: Connection) -> bool:
    """Become the one relay that publishes, for as long as this connection lives."""
    won: bool = await conn.fetchval(Q["claim_relay"], _LOCK)
    return won


async def upcoming(
    conn: Connection, after: int, limit: int, without: Sequence[str] = ()
) -> list[OutgoingRow]:
    """The next rows, in the order they were written, but for those of some topics."""
    rows = await conn.fetch(Q["next_outgoing"], after, limit, list(without))
    return [OutgoingRow(*row) for row in rows]


async def confirm(conn: Connection, outbox_ids: Sequence[int]) -> None:
    """The broker has these: forget them."""
    await conn.execute(Q["confirm_outgoing"], list(outbox_ids))


async def backlog(pool: Pool | Connection) -> Backlog:
    """What has not been published yet."""
    row = await pool.fetchrow(Q["outbox_backlog"])
    return Backlog(row["rows"], row["oldest"]) if row else Backlog(0, 0.0)
