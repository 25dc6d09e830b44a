"""Listings: a share of the connections for each tenant, in turn."""

import asyncio
from typing import Any, cast

import pytest

from core.shared.errors import OverloadedError
from services.shared.database import Database
from services.shared.listings import MAX_WAITING_LISTINGS, Listings
from storage.postgres.pool import Pool


class Slow:
    """Listings that hang until they are let go."""

    def __init__(self, connections: int = 4, patience: float = 30.0) -> None:
        self.listings = Listings(Database(cast("Pool", None), patience), connections, patience)
        self.gate = asyncio.Event()
        self.under_way: list[int] = []

    async def page(self, _pool: Any, tenant: int) -> int:
        self.under_way.append(tenant)
        await self.gate.wait()
        return tenant

    def query(self, tenant: int) -> "asyncio.Task[int]":
        return asyncio.create_task(self.listings.query(self.page, tenant))


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_tenant_has_half_and_the_next_is_served_meanwhile() -> None:
    slow = Slow(connections=4)
    asking = [slow.query(1) for _ in range(10)]
    await _settle()
    assert slow.under_way == [1, 1]
    asking += [slow.query(2), slow.query(3)]
    await _settle()
    assert slow.under_way == [1, 1, 2, 3]
    slow.gate.set()
    assert sorted(await asyncio.gather(*asking)) == [1] * 10 + [2, 3]
    # Nothing is left behind.
    assert slow.listings._room.taken == 0
    assert not slow.listings._turns._waiting


async def test_so_many_wait_and_no_more() -> None:
    slow = Slow(connections=2)
    asking = [slow.query(1) for _ in range(1 + MAX_WAITING_LISTINGS)]
    await _settle()
    with pytest.raises(OverloadedError, match="of this tenant"):
        await slow.query(1)
    slow.gate.set()
    await asyncio.gather(*asking)


async def test_who_goes_away_leaves_nothing_behind() -> None:
    slow = Slow(connections=2)
    asking = [slow.query(1) for _ in range(5)]
    await _settle()
    for task in asking[1:4]:
        task.cancel()
    await asyncio.wait(asking[1:4])
    slow.gate.set()
    assert await asking[0] == await asking[4] == 1
    assert slow.listings._room.taken == 0
    assert not slow.listings._turns._waiting


async def test_who_does_not_get_its_turn_in_time_is_told() -> None:
    slow = Slow(connections=2, patience=0.05)
    first = slow.query(1)
    await _settle()
    with pytest.raises(TimeoutError):
        await slow.query(1)
    with pytest.raises(TimeoutError):
        await first
    assert slow.listings._room.taken == 0


async def test_a_turn_that_comes_as_its_owner_leaves_goes_to_the_next() -> None:
    slow = Slow(connections=2)
    first, second, third = slow.query(1), slow.query(1), slow.query(1)
    await _settle()
    # Its turn is given and it is cancelled before it can run.
    slow.listings._turns._waiting[1][0][1].set_result(None)
    slow.listings._turns._waiting[1].popleft()
    slow.listings._room.take(1, 1)
    second.cancel()
    await asyncio.wait({second})
    slow.gate.set()
    assert await asyncio.gather(first, third) == [1, 1]
    assert slow.listings._room.taken == 0
