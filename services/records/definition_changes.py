"""Changes of definitions: one of a tenant at a time, on a part of the connections.

Each change locks the definitions of its tenant and may read many records. Those of one tenant would
wait for each other with a connection each, until none is left for other requests.
"""

import asyncio
from typing import ParamSpec, TypeVar

from core.shared.errors import OverloadedError
from services.shared.database import Database, TenantQuery
from services.shared.tenant_turns import TenantTurns

P = ParamSpec("P")
T = TypeVar("T")

MAX_AT_ONCE = 4
"""Half of the connections that requests share."""
MAX_WAITING_CHANGES = 20
"""Changes of one tenant that wait for their turn; more get 429."""


class DefinitionChanges:
    """Runs the changes of tenants in turn."""

    def __init__(self, database: Database, timeout_seconds: float) -> None:
        self._database = database
        self._timeout = timeout_seconds
        self._changing: set[int] = set()
        self._turns = TenantTurns(self._fits, self._take, self._release)

    async def run(
        self, change: TenantQuery[P, T], tenant: int, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a change once, as soon as no other one of the tenant runs.

        Raises:
            OverloadedError: Too many changes of this tenant wait already.
            TimeoutError: It did not get its turn, or no answer, in time.
        """
        if self._turns.waiting(tenant) >= MAX_WAITING_CHANGES:
            raise OverloadedError("too many changes of definitions of this tenant wait")
        async with asyncio.timeout(self._timeout):
            await self._turns.enter(tenant)
        try:
            return await self._database.query_once(change, tenant, *args, **kwargs)
        finally:
            self._turns.leave(tenant)

    def _fits(self, tenant: int, _: int) -> bool:
        return tenant not in self._changing and len(self._changing) < MAX_AT_ONCE

    def _take(self, tenant: int, _: int) -> None:
        self._changing.add(tenant)

    def _release(self, tenant: int, _: int) -> None:
        self._changing.discard(tenant)
