"""Pools are told to look, once for all that happens meanwhile."""

import asyncio

from core.dispatch.job import JobKey
from core.shared.errors import UnavailableError
from services.dispatch.pool_notifier import PoolNotifier


class Pools:
    def __init__(self) -> None:
        self.told: list[int] = []
        self.ended: list[tuple[int, list[JobKey]]] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, pool_no: int, question: str, *args: list[JobKey]) -> None:
        if question == "let_go":
            self.ended.append((pool_no, *args))
            return
        assert question == "refresh"
        self.told.append(pool_no)
        await self.open.wait()
        if self.error is not None:
            raise self.error


async def settled(bell: PoolNotifier) -> None:
    commits = bell._commits._commits.values()
    await asyncio.gather(*(commit._running for commit in commits if commit._running))


async def test_what_happens_while_a_pool_looks_is_one_more_look() -> None:
    pools = Pools()
    bell = PoolNotifier(pools.ask)
    bell.notify([1, 2])
    await asyncio.sleep(0)
    for _ in range(5):
        bell.notify([1])
    pools.open.set()
    await settled(bell)
    assert sorted(pools.told) == [1, 1, 2]


async def test_pools_are_told_of_jobs_that_ended_before_they_look() -> None:
    pools = Pools()
    bell = PoolNotifier(pools.ask)
    one, two, three = (JobKey(1, name) for name in ("a", "b", "c"))
    bell.notify([1], {1: [one]})
    await asyncio.sleep(0)
    bell.notify([1, 2], {1: [two], 2: [three]})
    pools.open.set()
    await settled(bell)
    assert pools.ended == [(1, [one]), (2, [three]), (1, [two])]
    assert sorted(pools.told) == [1, 1, 2]


async def test_a_pool_that_is_away_is_nobodys_trouble() -> None:
    pools = Pools()
    pools.open.set()
    bell = PoolNotifier(pools.ask)
    for error in (UnavailableError("away"), ValueError("odd")):
        pools.error = error
        bell.notify([1])
        await settled(bell)
    pools.error = None
    bell.notify([1])
    await settled(bell)
    assert pools.told == [1, 1, 1]


async def test_whoever_closes_it_waits_for_nobody() -> None:
    pools = Pools()
    bell = PoolNotifier(pools.ask)
    bell.notify([1])
    await asyncio.sleep(0)
    await bell.close()
    assert len(bell._commits) == 0
