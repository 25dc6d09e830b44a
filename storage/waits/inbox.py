"""The inbox: events that no wait has taken, with their verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.shared.address import Address
from core.waits.state import ParkedEvent
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q
from storage.waits.wait_rows import parked_of

# How many events of a key, and of its neighbours on either side, an explanation reads.
NEAR_LIMIT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxFilter:
    """A filter of inbox events; None matches all."""

    verdict: str | None = None
    reason: str | None = None
    correlation_id: str | None = None


async def page(
    pool: Pool, tenant: int, chosen: InboxFilter, before: int | None, limit: int
) -> ScanPage[dict[str, Any], int]:
    """Read the next events of a listing, newest first, without payloads, in one bounded scan."""
    scanned_to = None
    if chosen != InboxFilter():
        scanned_to = await bounded_scan.scan_end(pool, "look_back_at_inbox", tenant, before)
    rows = await pool.fetch(
        Q["list_inbox"],
        tenant,
        chosen.verdict,
        chosen.reason,
        chosen.correlation_id,
        before,
        limit,
        scanned_to or 0,
    )
    return ScanPage([dict(row) for row in rows], scanned_to)


async def read(pool: Pool, tenant: int, inbox_id: int) -> ParkedEvent | None:
    """Read one event with its payload."""
    row = await pool.fetchrow(Q["read_parked"], tenant, inbox_id)
    return parked_of(row) if row else None


async def delete(pool: Pool, tenant: int, inbox_id: int) -> bool:
    return await pool.fetchval(Q["delete_parked"], tenant, inbox_id) is not None


async def near_misses(
    pool: Connection | Pool, address: Address, limit: int = 20
) -> list[ParkedEvent]:
    """Read the events with this correlation id, of any execution, that no wait has taken."""
    prefix = address.key[:8]
    lower, upper = prefix + b"\x00" * 8, prefix + b"\xff" * 8
    rows = await pool.fetch(
        Q["near_misses"], address.key, lower, upper, address.tenant, NEAR_LIMIT, limit
    )
    return [parked_of(row) for row in rows]


async def slice_after(pool: Pool, after: int, size: int) -> tuple[int, int]:
    """Return the size of the next slice of at most `size` events, and its last id."""
    ((found, last),) = await pool.fetch(Q["slice_of_inbox"], after, size)
    return found, last


async def stranded(
    pool: Pool, after: int, last: int, limit: int, budget: int
) -> list[tuple[int, ParkedEvent]]:
    """Read the parked events of a slice whose wait exists by now, oldest first.

    Return at most `limit` events, and stop after the one that exceeds `budget` bytes.
    """
    rows = await pool.fetch(Q["stranded"], after, last, limit, budget)
    return [(row["inbox_id"], parked_of(row)) for row in rows]


async def delete_taken(pool: Pool, inbox_ids: Sequence[int]) -> None:
    await pool.execute(Q["settle_stranded"], list(inbox_ids))


async def expire(pool: Pool, limit: int) -> int:
    """Delete a batch of expired events; return how many."""
    return len(await pool.fetch(Q["expire_parked"], limit))


async def count_by_verdict(pool: Pool) -> dict[tuple[str, str], int]:
    """Count parked events by verdict and reason; estimate from a sample if the table is large."""
    ((_, size),) = await pool.fetch(Q["census_sizes"])
    percent = bounded_scan.sample_percent(size)
    rows = await pool.fetch(Q["inbox_census"], percent)
    return {
        (row["verdict"], row["reason"]): bounded_scan.scaled(row["events"], percent) for row in rows
    }
