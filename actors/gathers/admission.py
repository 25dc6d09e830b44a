"""Limits of a call pool: the calls that it holds, and the calls that it makes concurrently.

Both are limited in number and in bytes, and one tenant gets at most half of each. A tenant that
exceeds its half waits or is refused; other tenants are not affected.
"""

from collections import Counter
from dataclasses import dataclass

from core.gathers.gather import CallBatch
from services.shared.tenant_turns import TenantTurns

# The approximate memory of a call without its body.
CALL_BYTES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPoolLimits:
    """The capacity of a call pool."""

    places: int = 1_000
    queue: int = 10_000
    budget: int = 64 * 1024 * 1024


def share_of(limit: int) -> int:
    return limit - limit // 2


class _TenantQuota:
    """A limit, and how much of it each tenant uses."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._share = share_of(limit)
        self._taken = 0
        self._by_tenant: Counter[int] = Counter()

    def capped(self, amount: int) -> int:
        """Cap an amount at a tenant's share, so that even the largest fits into an empty pool."""
        return min(amount, self._share)

    def fits(self, tenant: int, amount: int) -> bool:
        has_share = self._by_tenant[tenant] + amount <= self._share
        return has_share and self._taken + amount <= self._limit

    def take(self, tenant: int, amount: int) -> None:
        self._taken += amount
        self._by_tenant[tenant] += amount
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]


@dataclass(eq=False, repr=False)
class Reservation:
    """The room of the calls of one batch; the bytes are freed when the last call has ended."""

    _room: "CallBudget"
    _tenant: int
    _left: int
    _counted: int
    _weight: int

    def release_one(self) -> None:
        self._left -= 1
        if self._counted > self._left:
            self._counted -= 1
            self._room.calls.take(self._tenant, -1)
        if not self._left:
            self._room.bytes.take(self._tenant, -self._weight)


class CallBudget:
    """Counts the calls that a pool holds, from acceptance until their result is delivered."""

    def __init__(self, bounds: CallPoolLimits) -> None:
        self.calls = _TenantQuota(bounds.queue)
        self.bytes = _TenantQuota(bounds.budget)

    def has_capacity(self, tenant: int) -> bool:
        return self.calls.fits(tenant, 1) and self.bytes.fits(tenant, 1)

    def reserve(self, tenant: int, call_batch: CallBatch) -> Reservation | None:
        """Reserve room for these calls; return None if there is none."""
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
    """Limits concurrent calls: `take` waits for a slot and room for a body, `leave` frees both."""

    def __init__(self, bounds: CallPoolLimits) -> None:
        self._places = _TenantQuota(bounds.places)
        self._bytes = _TenantQuota(bounds.budget)
        turns = TenantTurns(self._fits, self._enter, self._free)
        self.take, self.leave = turns.enter, turns.leave

    def _fits(self, tenant: int, weight: int) -> bool:
        return self._places.fits(tenant, 1) and self._bytes.fits(tenant, self._bytes.capped(weight))

    def _enter(self, tenant: int, weight: int) -> None:
        self._places.take(tenant, 1)
        self._bytes.take(tenant, self._bytes.capped(weight))

    def _free(self, tenant: int, weight: int) -> None:
        self._places.take(tenant, -1)
        self._bytes.take(tenant, -self._bytes.capped(weight))
