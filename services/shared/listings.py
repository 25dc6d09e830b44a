"""Listings and counts on separate connections, so that short queries never wait behind them.

A listing may read many rows for a filter without an index. A tenant gets at most half of the
connections, so that one remains for the next tenant.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from core.shared.errors import OverloadedError
from core.shared.tenant_share import SharedLimit
from services.shared.database import Database
from storage.postgres.pool import Pool

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING_LISTINGS = 100
"""Listings of one tenant that wait for a connection; more get 429."""


class Listings:
    """Runs listings of tenants in turn, within the share of each."""

    def __init__(self, database: Database, connections: int, timeout_seconds: float) -> None:
        self._database = database
        self._timeout = timeout_seconds
        self._room = SharedLimit(connections)
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    async def query(
        self,
        query: Callable[Concatenate[Pool, int, P], Awaitable[T]],
        tenant: int,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a listing of a tenant once a connection is free for it.

        Raises:
            OverloadedError: Too many listings of this tenant wait already.
            TimeoutError: There was no free connection, or no answer, in time.
        """
        await self._enter(tenant)
        try:
            return await self._database.query(query, tenant, *args, **kwargs)
        finally:
            self._leave(tenant)

    async def _enter(self, tenant: int) -> None:
        if tenant not in self._waiting and self._room.fits(tenant, 1, 0.0):
            self._room.take(tenant, 1)
            return
        waiting = self._waiting.setdefault(tenant, deque())
        if len(waiting) >= MAX_WAITING_LISTINGS:
            raise OverloadedError("too many listings of this tenant wait for their turn")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            async with asyncio.timeout(self._timeout):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._leave(tenant)  # the slot was granted as the caller gave up
            raise

    def _leave(self, tenant: int) -> None:
        self._room.release(tenant, 1)
        is_moving = True
        while is_moving:
            admitted = [self._admit_one(tenant) for tenant in list(self._waiting)]
            is_moving = any(admitted)

    def _admit_one(self, tenant: int) -> bool:
        waiting = self._waiting[tenant]
        while waiting and waiting[0].done():  # the caller has given up
            waiting.popleft()
        fits = bool(waiting) and self._room.fits(tenant, 1, 0.0)
        if fits:
            self._room.take(tenant, 1)
            waiting.popleft().set_result(None)
        if not waiting:
            del self._waiting[tenant]
        return fits
