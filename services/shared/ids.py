"""Creates ids from a number leased from Postgres and the database's time."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from core.shared.backoff import backoff
from core.shared.errors import UnavailableError
from core.shared.tsid import IdMaker
from services.shared.process import new_turn_id, owner_name
from storage.postgres import id_numbers as table
from storage.postgres.error_class import DATABASE_ERRORS
from storage.postgres.id_numbers import LEASE_SECONDS
from storage.postgres.pool import Pool

log = structlog.get_logger("ids")

RETRY_FIRST, RETRY_LAST = 0.1, 2.0
# More often than needed: a restored database may have leased the number to another process.
RENEW_EVERY = 15.0


class IdLeases:
    """Leases in Postgres, under a name that is unique to this process."""

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool = pool
        self._holder = f"{owner_name(name)}:{new_turn_id()}"

    async def take(self) -> int | None:
        return await table.lease_maker(self._pool, self._holder)

    async def renew(self, number: int) -> bool:
        return await table.renew_maker(self._pool, number, self._holder)

    async def release(self, number: int) -> None:
        await table.release_maker(self._pool, number, self._holder)


@dataclass(eq=False, repr=False)
class IdGenerator:
    """Creates ids while its lease lasts; the process may start while Postgres is away."""

    _leases: IdLeases
    _now: Callable[[], float]
    _monotonic: Callable[[], float] = time.monotonic
    _number: int | None = None
    _maker: IdMaker | None = None
    _valid_until: float = 0.0
    _keeping: asyncio.Task[None] | None = None
    _hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self) -> str:
        """Create an id.

        Raises:
            UnavailableError: There is no number, or its lease has expired.
        """
        if self._maker is None or self._monotonic() > self._valid_until:
            raise UnavailableError("the database has not answered yet", retry_after=2)
        return self._maker()

    async def start(self) -> None:
        """Lease a number and keep renewing it; retry while Postgres is away."""
        is_held = await self._is_held()
        self._keeping = asyncio.create_task(self._keep(is_held=is_held))

    def renew_soon(self) -> None:
        """Check the lease now, because the database may have been restored."""
        self._hurry.set()

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        number, self._number, self._maker = self._number, None, None
        if number is not None:
            with contextlib.suppress(*DATABASE_ERRORS):
                await self._leases.release(number)

    async def _is_held(self) -> bool:
        """Renew the lease or take another; return False if there is none now."""
        try:
            asked = self._monotonic()
            if self._number is None or not await self._leases.renew(self._number):
                self._number = self._maker = None
                self._number = await self._leases.take()
                if self._number is None:
                    return False
                self._maker = IdMaker(self._number, self._now, random.getrandbits)
        except DATABASE_ERRORS as error:  # Postgres may be away, or have no tables yet
            log.warning("ids.no_number", error=type(error).__name__)
            return False
        # The lease counts from the request, because a part of it has passed since.
        self._valid_until = asked + LEASE_SECONDS
        return True

    async def _keep(self, *, is_held: bool) -> None:
        attempt = 0
        while True:
            chance = random.random()  # noqa: S311  no secret
            pause = backoff(attempt, base=RETRY_FIRST, cap=RETRY_LAST, jitter=chance)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), RENEW_EVERY if is_held else pause)
            self._hurry.clear()
            is_held = await self._is_held()
            attempt = 0 if is_held else attempt + 1
