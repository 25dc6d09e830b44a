"""The database's clock, read rarely and extrapolated in between."""

from collections.abc import Callable

import structlog

from core.shared.clock_offset import ClockOffset
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

log = structlog.get_logger("clock")


async def read_clock(pool: Pool | Connection) -> float:
    """Read the database's clock: the cheapest query that proves that the database answers."""
    now: float = await pool.fetchval(Q["read_clock"])
    return now


class DatabaseClock:
    """Derives the database's time from a local monotonic clock and the best measured offset."""

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # The local wall clock serves until the first sync.
        self._offset = ClockOffset(wall() - monotonic())
        self.moves = 0
        """How often the database's clock has moved."""
        # Called when the clock has moved: decisions by the earlier time must be made again.
        self.on_moved: Callable[[], None] = lambda: None

    @property
    def synced(self) -> bool:
        return self._offset.measured

    def now(self) -> float:
        """Return seconds since the epoch, to the microsecond that Postgres stores."""
        return round(self._monotonic() + self._offset.value, 6)

    async def sync(self, pool: Pool) -> None:
        """Measure the offset. Waiting for a connection is not part of the measurement."""
        async with pool.acquire() as conn:
            await self.measure(conn)

    async def measure(self, conn: Connection) -> None:
        """Measure the offset on a new connection, before its first use.

        The connection may lead to another server than the previous one, with another clock.
        """
        before = self._monotonic()
        database: float = await conn.fetchval(Q["read_clock"])
        after = self._monotonic()
        expected = self.now()
        if self._offset.add(before, after, database):
            log.warning("clock.moved", seconds=round(self.now() - expected, 3))
            self.moves += 1
            self.on_moved()
