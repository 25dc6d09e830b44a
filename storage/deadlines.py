"""What the timer reads and writes: due rows, its own mark, the database's clock."""

from dataclasses import dataclass

from core.address import Address
from storage.pool import Pool
from storage.queries import Q
from storage.rows import address_of


@dataclass(frozen=True, slots=True)
class Due:
    """A wait and its next deadline."""

    address: Address
    due_at: float


async def due_between(pool: Pool, after: float, until: float, limit: int) -> list[Due]:
    """Waits whose next deadline lies in (after, until], soonest first."""
    rows = await pool.fetch(Q["due_waits"], after, until, limit)
    return [Due(address_of(row), row["due_at"]) for row in rows]


async def read_mark(pool: Pool, name: str) -> float | None:
    """Up to where everything has fired; None before the first time."""
    mark: float | None = await pool.fetchval(Q["read_mark"], name)
    return mark


async def write_mark(pool: Pool, name: str, swept_until: float) -> None:
    """Move the mark forward."""
    await pool.execute(Q["write_mark"], name, swept_until)
