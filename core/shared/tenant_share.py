"""Shares a limited amount (slots, messages, bytes) fairly between tenants.

A tenant may hold as much as is free. One alone gets half, two that both want more get a third each,
and so on: the next one always finds room, however many hold a share and however long.
"""

from collections.abc import Iterable
from itertools import chain, islice, zip_longest
from typing import TypeVar

T = TypeVar("T")

CONTESTED_FOR = 10.0
"""Seconds for which a second tenant counts after it asked."""


class SharedLimit:
    """Counts how much of a limit each tenant holds.

    With `whole_if_alone`, a tenant may hold all of it while no other holds or has lately asked for
    any. That suits what is released within moments, such as places in a queue.
    """

    __slots__ = (
        "_by_tenant", "_contested_until", "_last", "_limit", "_taken", "_whole_if_alone",
    )  # fmt: skip

    def __init__(self, limit: int, *, whole_if_alone: bool = False) -> None:
        self._limit = limit
        self._whole_if_alone = whole_if_alone
        self._taken = 0
        self._by_tenant: dict[int, int] = {}
        self._last: int | None = None
        self._contested_until = float("-inf")

    @property
    def taken(self) -> int:
        return self._taken

    def held_by(self, tenant: int) -> int:
        return self._by_tenant.get(tenant, 0)

    def is_contested(self, now: float) -> bool:
        """Return True if more than one tenant has asked lately."""
        return now < self._contested_until

    def fits(self, tenant: int, amount: int, now: float) -> bool:
        """Return True if a tenant may take this much more now.

        A tenant that holds nothing may take all that is free, so that a large amount fits at all;
        and if nothing is taken, any amount fits.
        """
        if tenant != self._last:
            if self._last is not None:
                self._contested_until = now + CONTESTED_FOR
            self._last = tenant
        taken = self._taken
        if taken == 0:
            return True
        free = self._limit - taken
        if amount > free:
            return False
        held = self._by_tenant.get(tenant, 0)
        if held == 0:
            return True
        is_alone = held == taken and now >= self._contested_until
        return held + amount <= free - amount or (is_alone and self._whole_if_alone)

    def take(self, tenant: int, amount: int) -> None:
        self._taken += amount
        self._by_tenant[tenant] = self._by_tenant.get(tenant, 0) + amount

    def release(self, tenant: int, amount: int) -> None:
        self._taken -= amount
        left = self._by_tenant[tenant] - amount
        if left:
            self._by_tenant[tenant] = left
        else:
            del self._by_tenant[tenant]


def round_robin(items: Iterable[tuple[int, T]], limit: int) -> list[T]:
    """Choose up to `limit` of these (tenant, item) pairs, one of each tenant in turn.

    The items of one tenant stay in their order.
    """
    by_tenant: dict[int, list[tuple[T]]] = {}
    for tenant, item in items:
        by_tenant.setdefault(tenant, []).append((item,))
    rounds = chain.from_iterable(zip_longest(*by_tenant.values()))
    return [one[0] for one in islice((one for one in rounds if one is not None), limit)]


def has_room(limit: int, total: int, own: int) -> bool:
    """Return True if there may be one more beside `total`; a tenant may `own` half of the limit."""
    return total < limit and own < max(1, limit // 2)
