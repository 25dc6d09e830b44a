"""Ids that one process makes: its number comes from Postgres, the time is the database's."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import asyncpg
import structlog

from core.backoff import backoff
from core.errors import UnavailableError
from core.tsid import IdMaker
from storage.clock import DatabaseClock
from storage.ids import draw_maker
from storage.pool import CONNECTION_ERRORS, Pool

log = structlog.get_logger("ids")

RETRY_FIRST, RETRY_LAST = 0.1, 2.0
# Postgres may be away, or have no tables yet.
_NOT_YET = (*CONNECTION_ERRORS, asyncpg.PostgresError)


async def open_id_maker(pool: Pool, clock: DatabaseClock) -> IdMaker:
    """A maker with a number of its own."""
    return IdMaker(await draw_maker(pool), clock.now)


class Ids:
    """The same for a process that may start while Postgres is away."""

    def __init__(self, open_maker: Callable[[], Awaitable[IdMaker]]) -> None:
        self._open_maker = open_maker
        self._maker: IdMaker | None = None
        self._trying: asyncio.Task[None] | None = None

    def __call__(self) -> str:
        """A new id.

        Raises:
            UnavailableError: Postgres has not given a number yet.
        """
        if self._maker is None:
            raise UnavailableError("the database has not answered yet", retry_after=2)
        return self._maker()

    async def start(self) -> None:
        """Draw the number, and go on trying for as long as Postgres is away."""
        if not await self._draws():
            self._trying = asyncio.create_task(self._try_until_drawn())

    async def close(self) -> None:
        """Try no longer."""
        if self._trying is not None:
            self._trying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._trying

    async def _draws(self) -> bool:
        try:
            self._maker = await self._open_maker()
        except _NOT_YET as error:
            log.warning("ids.no_number", error=type(error).__name__)
            return False
        return True

    async def _try_until_drawn(self) -> None:
        attempt = 0
        while True:
            pause = backoff(attempt, base=RETRY_FIRST, cap=RETRY_LAST, jitter=random.random())  # noqa: S311
            await asyncio.sleep(pause)
            if await self._draws():
                return
            attempt += 1
