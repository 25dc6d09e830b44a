"""What a pool has room for, and that nobody can take it all. Time is simulated."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from actors.gathers.admission import (
    CALL_BYTES,
    CallBudget,
    CallPoolLimits,
    ConcurrencyLimiter,
    share_of,
)
from core.gathers.gather import CallBatch, GatherCall, Resource
from core.shared.address import Address
from tests.simulation.clockwork import simulate

HOME = Resource(url="http://one.example")


def call_batch(calls: int = 1, context: int = 0, body: int = 0) -> CallBatch:
    made = (
        GatherCall(
            address=Address(1, "g", "g"),
            expires_at=10.0,
            name=f"r{n}",
            resource=HOME,
            callback_url="",
            body=b"x" * body,
        )
        for n in range(calls)
    )
    return CallBatch(tuple(made), b"x" * context)


# What is kept.


@pytest.mark.parametrize(("limit", "share"), [(1, 1), (2, 1), (3, 2), (1_000, 500)])
def test_a_tenant_has_half_and_never_nothing(limit: int, share: int) -> None:
    assert share_of(limit) == share


def test_one_tenant_fills_its_half_and_leaves_the_other() -> None:
    room = CallBudget(CallPoolLimits(queue=8))
    assert [room.reserve(1, call_batch(2)) is not None for _ in range(3)] == [True, True, False]
    assert (room.has_capacity(1), room.has_capacity(2)) == (False, True)
    assert [room.reserve(2, call_batch(4)) is not None for _ in range(2)] == [True, False]
    assert room.reserve(3, call_batch(1)) is None


def test_a_call_that_is_over_makes_room_for_another() -> None:
    room = CallBudget(CallPoolLimits(queue=4))
    reservation = room.reserve(1, call_batch(2))
    assert reservation is not None
    reservation.release_one()
    assert room.reserve(1, call_batch(2)) is None
    assert room.reserve(1, call_batch(1)) is not None


def test_bytes_are_kept_until_the_last_call_of_their_gather_is_over() -> None:
    room = CallBudget(CallPoolLimits(budget=200_000))
    reservation = room.reserve(1, call_batch(3, context=80_000))
    assert reservation is not None
    for _ in range(2):
        reservation.release_one()
        assert room.reserve(1, call_batch(1, body=30_000)) is None
    reservation.release_one()
    assert room.reserve(1, call_batch(1, body=90_000)) is not None


def test_a_call_takes_room_even_if_it_says_nothing() -> None:
    room = CallBudget(CallPoolLimits(budget=10 * CALL_BYTES))
    assert [room.reserve(1, call_batch()) is not None for _ in range(6)] == [True] * 5 + [False]


def test_the_largest_errand_fits_where_there_is_nothing_else_and_is_given_back_whole() -> None:
    room = CallBudget(CallPoolLimits(queue=10, budget=10_000))
    for _ in range(3):
        reservation = room.reserve(1, call_batch(100, context=1_000_000))
        assert reservation is not None
        assert room.reserve(1, call_batch()) is None
        for _ in range(100):
            reservation.release_one()


# What is made at the same time.


def run(story: Coroutine[Any, Any, None]) -> None:
    simulate(story)


async def waiting(
    places: ConcurrencyLimiter, order: list[str], name: str, tenant: int, weight: int
) -> None:
    await places.take(tenant, weight)
    order.append(name)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_tenant_that_takes_all_it_can_does_not_keep_another_out() -> None:
    async def story() -> None:
        places, order = ConcurrencyLimiter(CallPoolLimits(places=4)), []
        greedy = [asyncio.create_task(waiting(places, order, f"a{n}", 1, 0)) for n in range(5)]
        await settle()
        await places.take(2, 0)
        assert order == ["a0", "a1"]
        places.leave(1, 0)
        await settle()
        assert order == ["a0", "a1", "a2"]
        for task in greedy:
            task.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)

    run(story())


def test_tenants_take_turns_and_each_keeps_its_order() -> None:
    async def story() -> None:
        places, order = ConcurrencyLimiter(CallPoolLimits(places=2)), []
        await places.take(8, 0)
        await places.take(9, 0)
        tasks = [
            asyncio.create_task(waiting(places, order, f"{tenant}{n}", tenant, 0))
            for tenant in (1, 2)
            for n in range(2)
        ]
        await settle()
        places.leave(8, 0)
        await settle()
        assert order == ["10"]
        places.leave(1, 0)
        await settle()
        assert order == ["10", "20"]
        for tenant in (2, 1, 2):
            places.leave(tenant, 0)
            await settle()
        assert order == ["10", "20", "11", "21"]
        await asyncio.gather(*tasks)

    run(story())


def test_bodies_under_way_are_bounded_by_their_bytes() -> None:
    async def story() -> None:
        places, order = ConcurrencyLimiter(CallPoolLimits(places=100, budget=20_000)), []
        tasks = [
            asyncio.create_task(waiting(places, order, f"c{n}", 1, weight))
            for n, weight in enumerate((6_000, 6_000, 1_000_000))
        ]
        await settle()
        assert order == ["c0"]
        places.leave(1, 6_000)
        await settle()
        assert order == ["c0", "c1"]
        places.leave(1, 6_000)
        await settle()
        assert order == ["c0", "c1", "c2"]
        places.leave(1, 1_000_000)
        await asyncio.gather(*tasks)
        await places.take(1, 10_000)

    run(story())


@pytest.mark.parametrize("after_admission", [False, True])
def test_one_that_goes_away_while_it_waits_leaves_nothing_behind(after_admission: bool) -> None:
    async def story() -> None:
        places, order = ConcurrencyLimiter(CallPoolLimits(places=1, budget=20_000)), []
        await places.take(1, 0)
        gone = asyncio.create_task(waiting(places, order, "gone", 1, 0))
        next_one = asyncio.create_task(waiting(places, order, "next", 1, 0))
        await settle()
        if after_admission:
            places.leave(1, 0)  # `gone` is let in, and does not know yet
            gone.cancel()
        else:
            gone.cancel()
            await settle()
            places.leave(1, 0)
        await settle()
        assert order == ["next"]
        await asyncio.gather(gone, next_one, return_exceptions=True)

    run(story())
