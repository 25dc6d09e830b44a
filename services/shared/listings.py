"""Listings and counts on separate connections, so that short queries never wait behind them.

A listing may read many rows for a filter without an index. A tenant gets at most half of the
connections, so that one remains for the next tenant.
"""

import asyncio
from functools import partial
from typing import ParamSpec, TypeVar

from core.shared.errors import OverloadedError
from core.shared.tenant_share import SharedLimit
from services.shared.database import Database, TenantQuery
from services.shared.tenant_turns import TenantTurns

P = ParamSpec("P")
T = TypeVar("T")

MAX_WAITING_LISTINGS = 100
"""Listings of one tenant that wait for a connection; more get 429."""


class Listings:
    """Runs listings of tenants in turn, within the share of each."""

    def __init__(self, database: Database, connections: int, timeout_seconds: float) -> None:
        self._database = database
        self._timeout = timeout_seconds
        room = self._room = SharedLimit(connections)
        self._turns = TenantTurns(partial(room.fits, now=0.0), room.take, room.release)

    async def query(
        self, query: TenantQuery[P, T], tenant: int, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a listing of a tenant once a connection is free for it.

        Raises:
            OverloadedError: Too many listings of this tenant wait already.
            TimeoutError: There was no free connection, or no answer, in time.
        """
        if self._turns.waiting(tenant) >= MAX_WAITING_LISTINGS:
            raise OverloadedError("too many listings of this tenant wait for their turn")
        async with asyncio.timeout(self._timeout):
            await self._turns.enter(tenant)
        try:
            return await self._database.query(query, tenant, *args, **kwargs)
        finally:
            self._turns.leave(tenant)
