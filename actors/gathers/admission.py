"""What a pool has room for: calls that it keeps, and calls that it makes at the same time.

Both are bounded in number and in bytes, and one tenant has at most half of each: whoever asks for
too much waits for its own calls, or is refused, and the others go on.
"""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass

from core.gathers.gather import CallBatch

# About what a call takes beside its body.
CALL_BYTES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPoolLimits:
    """How much a pool takes."""

    places: int = 1_000
    queue: int = 10_000
    budget: int = 64 * 1024 * 1024


def share_of(limit: int) -> int:
    """What one tenant may have of it."""
    return limit - limit // 2


class _TenantQuota:
    """So much there is in all, and so much each tenant has of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._share = share_of(limit)
        self._taken = 0
        self._by_tenant: Counter[int] = Counter()

    def capped(self, amount: int) -> int:
        """What of an amount is counted: even the largest must fit when there is nothing else."""
        return min(amount, self._share)

    def fits(self, tenant: int, amount: int) -> bool:
        has_share = self._by_tenant[tenant] + amount <= self._share
        return has_share and self._taken + amount <= self._limit

    def take(self, tenant: int, amount: int) -> None:
        self._taken += amount
        self._by_tenant[tenant] += amount
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]


class Reservation:
    """What the calls of one errand take up; its bytes are needed until the last is over."""

    def __init__(
        self, room: "CallBudget", tenant: int, calls: int, counted: int, weight: int
    ) -> None:
        self._room = room
        self._tenant = tenant
        self._left = calls
        self._counted = counted
        self._weight = weight

    def release_one(self) -> None:
        """One of the calls is over."""
        self._left -= 1
        if self._counted > self._left:
            self._counted -= 1
            self._room.calls.take(self._tenant, -1)
        if not self._left:
            self._room.bytes.take(self._tenant, -self._weight)


class CallBudget:
    """The calls that a pool keeps, from the moment they are handed over until they are told."""

    def __init__(self, bounds: CallPoolLimits) -> None:
        self.calls = _TenantQuota(bounds.queue)
        self.bytes = _TenantQuota(bounds.budget)

    def has_capacity(self, tenant: int) -> bool:
        """Whether it is worth bringing another call of this tenant."""
        return self.calls.fits(tenant, 1) and self.bytes.fits(tenant, 1)

    def reserve(self, tenant: int, call_batch: CallBatch) -> Reservation | None:
        """Take these calls in; None if there is no room."""
        calls = self.calls.capped(len(call_batch.calls))
        weight = self.bytes.capped(_weight_of(call_batch))
        if not (self.calls.fits(tenant, calls) and self.bytes.fits(tenant, weight)):
            return None
        self.calls.take(tenant, calls)
        self.bytes.take(tenant, weight)
        return Reservation(self, tenant, len(call_batch.calls), calls, weight)


def _weight_of(call_batch: CallBatch) -> int:
    own = sum(len(call.body) for call in call_batch.calls)
    return len(call_batch.context) + own + CALL_BYTES * len(call_batch.calls)


class ConcurrencyLimiter:
    """The calls that a pool makes at the same time. Tenants take turns; each in its own order."""

    def __init__(self, bounds: CallPoolLimits) -> None:
        self._places = _TenantQuota(bounds.places)
        self._bytes = _TenantQuota(bounds.budget)
        self._waiting: dict[int, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def take(self, tenant: int, weight: int) -> None:
        """Wait for a place, and for the room that a body of this weight needs."""
        counted = self._bytes.capped(weight)
        if tenant not in self._waiting and self._fits(tenant, counted):
            self._enter(tenant, counted)
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append((counted, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if not admitted.cancelled():
                self.leave(tenant, weight)
            else:
                self._admit()  # who waits behind may be smaller
            raise

    def leave(self, tenant: int, weight: int) -> None:
        """Give a place back."""
        self._places.take(tenant, -1)
        self._bytes.take(tenant, -self._bytes.capped(weight))
        self._admit()

    def _fits(self, tenant: int, weight: int) -> bool:
        return self._places.fits(tenant, 1) and self._bytes.fits(tenant, weight)

    def _enter(self, tenant: int, weight: int) -> None:
        self._places.take(tenant, 1)
        self._bytes.take(tenant, weight)

    def _admit(self) -> None:
        """Let in one of each tenant after another for as long as anybody fits."""
        is_moving = True
        while is_moving and self._waiting:
            is_moving = False
            for tenant in list(self._waiting):
                is_moving = self._admit_one(tenant) or is_moving

    def _admit_one(self, tenant: int) -> bool:
        queue = self._waiting[tenant]
        while queue and queue[0][1].done():  # has gone away meanwhile
            queue.popleft()
        if queue and not self._fits(tenant, queue[0][0]):
            return False
        del self._waiting[tenant]
        if not queue:
            return False
        weight, admitted = queue.popleft()
        self._enter(tenant, weight)
        admitted.set_result(None)
        if queue:
            self._waiting[tenant] = queue  # behind the others
        return True
