"""The timer's access to Postgres: due waits, its watermark and the database's clock."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from core.shared.address import Address
from storage.postgres.pool import Pool
from storage.postgres.queries import Q
from storage.waits.wait_rows import address_of

PAGE = 20_000


@dataclass(frozen=True, slots=True)
class DueWait:
    address: Address
    due_at: float


class DeadlineStore:
    """Reads due waits and keeps the watermark: the time up to which every deadline has fired."""

    def __init__(self, pool: Pool, mark: str = "waits", page: int = PAGE) -> None:
        self._pool = pool
        self._mark = mark
        self._page = page

    async def due_between(self, after: float, until: float) -> AsyncIterator[list[DueWait]]:
        """Yield pages of the waits whose next deadline lies in (after, until], soonest first."""
        behind, key = after, b""
        while True:
            rows = await self._pool.fetch(Q["due_waits"], after, until, behind, key, self._page)
            yield [DueWait(address_of(row), row["due_at"]) for row in rows]
            if len(rows) < self._page:
                return
            behind, key = rows[-1]["due_at"], rows[-1]["wait_key"]

    async def read_watermark(self) -> float | None:
        """Return the time up to which every deadline has fired; None before the first sweep."""
        mark: float | None = await self._pool.fetchval(Q["read_mark"], self._mark)
        return mark

    async def write_watermark(self, swept_until: float) -> None:
        """Set the watermark, also to an earlier time."""
        await self._pool.execute(Q["write_mark"], self._mark, swept_until)
