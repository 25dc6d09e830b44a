"""One connection for a writer that flushes all the time."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from storage.postgres.clock import DatabaseClock
from storage.postgres.error_class import ErrorClass, error_class
from storage.postgres.pool import Connection, PoolOptions, open_connection

T = TypeVar("T")


class ClockMovedError(ConnectionError):
    """Nothing was written, because the changes were decided by a wrong time."""


async def _ignore() -> None:
    pass


class WriteConnection:
    """Connects on first use, and again after the connection is lost.

    `on_connect` is called after each connect, perhaps to another server or to a restored one, and
    `on_lost` when the connection ends.
    """

    def __init__(
        self,
        options: PoolOptions,
        clock: DatabaseClock,
        on_connect: Callable[[], Awaitable[None]] = _ignore,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._on_connect = on_connect
        self._on_lost = on_lost
        self._conn: Connection | None = None

    async def use(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one write.

        Raises:
            ClockMovedError: The server's clock differs from the one that was used until now.
        """
        conn = self._conn
        if conn is None or conn.is_closed():
            conn = await self._connect()
        try:
            return await work(conn)
        except BaseException as error:
            # The connection's state is unknown, or its server is unusable: do not use it again.
            if not isinstance(error, Exception) or error_class(error) is ErrorClass.SERVER:
                self.close()
            raise

    async def _connect(self) -> Connection:
        moves = self._clock.moves
        conn = self._conn = await open_connection(self._options, self._clock.measure)
        conn.add_termination_listener(lambda _conn: self._on_lost())
        await self._on_connect()
        if self._clock.moves != moves:
            raise ClockMovedError("the database's clock was moved")
        return conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.terminate()
            self._conn = None
