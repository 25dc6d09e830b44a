"""Lets requests wait for room: tenants take turns, and the requests of one stay in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False, repr=False)
class TenantTurns:
    """Admits a request once it `fits`; `take` and `release` count its weight for its tenant."""

    _fits: Callable[[int, int], bool]
    _take: Callable[[int, int], None]
    _release: Callable[[int, int], None]
    _waiting: dict[int, deque[tuple[int, asyncio.Future[None]]]] = field(default_factory=dict)

    def waiting(self, tenant: int) -> int:
        return len(self._waiting.get(tenant, ()))

    async def enter(self, tenant: int, weight: int = 1) -> None:
        """Wait until the request fits."""
        if tenant not in self._waiting and self._fits(tenant, weight):
            self._take(tenant, weight)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append((weight, turn))
        try:
            await turn
        except BaseException:
            if turn.cancelled():
                self._admit()  # requests behind this one may be smaller and fit
            else:
                self.leave(tenant, weight)  # it was admitted as its caller gave up
            raise

    def leave(self, tenant: int, weight: int = 1) -> None:
        self._release(tenant, weight)
        self._admit()

    def _admit(self) -> None:
        """Admit one request of each tenant in turn for as long as one fits."""
        is_moving = True
        while is_moving:
            admitted = [self._admit_one(tenant) for tenant in list(self._waiting)]
            is_moving = any(admitted)

    def _admit_one(self, tenant: int) -> bool:
        queue = self._waiting[tenant]
        while queue and queue[0][1].done():  # the caller has given up
            queue.popleft()
        if queue and not self._fits(tenant, queue[0][0]):
            return False
        del self._waiting[tenant]
        if not queue:
            return False
        weight, turn = queue.popleft()
        self._take(tenant, weight)
        turn.set_result(None)
        if queue:
            self._waiting[tenant] = queue  # move the tenant behind the others
        return True
