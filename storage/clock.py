"""The database's clock, read seldom and extrapolated in between."""

from collections.abc import Callable

from storage.pool import Pool
from storage.queries import Q


class DatabaseClock:
    """Tells the database's time from a local monotonic clock and the offset last measured."""

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # Until the first sync the local wall clock has to do.
        self._offset = wall() - monotonic()
        self.synced = False

    def now(self) -> float:
        """Seconds since the epoch, to the microsecond that Postgres keeps."""
        return round(self._monotonic() + self._offset, 6)

    async def sync(self, pool: Pool) -> None:
        """Measure the offset; half the round trip is its error."""
        before = self._monotonic()
        database: float = await pool.fetchval(Q["read_clock"])
        after = self._monotonic()
        self._offset = database - (before + after) / 2
        self.synced = True
