"""Postgres goes away while a pool delivers: nothing is lost, and groups keep their order."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from core.dispatch.job import Mode
from storage.dispatch import job_queue
from storage.dispatch.job_queue import JobQueue
from storage.postgres.migrate import migrate
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.pool_at_work import PoolTenant, numbers, webhook_receiver
from tests.support.postgres import BareServer


@pytest.fixture
async def shop(bare_server: BareServer) -> AsyncIterator[PoolTenant]:
    await migrate(bare_server.dsn)
    pool: Pool = await open_pool(PoolOptions(dsn=bare_server.dsn, name="test"))
    async with webhook_receiver() as hooks:
        yield await PoolTenant.open(bare_server.dsn, pool, hooks, "shop", concurrency=20)
    pool.terminate()


async def test_postgres_restarted_in_the_middle(shop: PoolTenant, bare_server: BareServer) -> None:
    shop.hooks.takes[shop.path] = 0.02
    # So short a time-out that what was taken without our knowing is soon free again.
    fields = {"timeout_seconds": 1}
    async with shop.working() as actor:
        await shop.post(range(1_000, 1_300), actor, **fields)
        for group in range(10):
            first = group * 20
            await shop.post(
                range(first, first + 20),
                actor,
                message_group=f"g{group}",
                mode=Mode.BLOCK_ON_ERROR,
                **fields,
            )
        for mode in ("fast", "immediate"):
            seen = len(shop.came)
            await shop.until(lambda: len(shop.came) > seen + 40)  # noqa: B023
            await asyncio.to_thread(bare_server.stop, mode)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(bare_server.start)
        began = time.monotonic()
        await back(shop)
        await shop.done(40)
        # The longest wait is for the time of what was taken unseen to be over.
        assert time.monotonic() - began < 25
    came = numbers(shop.came)
    assert set(came) == {*range(200), *range(1_000, 1_300)}
    assert len(came) - len(set(came)) <= 40  # those that were under way, twice
    for group in range(10):
        own = [n for n in came if n < 200 and n // 20 == group]
        assert own == sorted(own)
    assert await shop.statuses() == {"COMPLETED": 500}
    assert shop.hooks.most[shop.path] <= 20
    ids = {one.number: one.job_id for one in shop.came}
    assert {one.job_id for one in shop.came} == set(ids.values())


async def back(shop: PoolTenant) -> None:
    async def answers() -> bool:
        try:
            await shop.statuses()
        except Exception:
            return False
        return True

    await shop.until(answers)


async def test_a_pool_that_starts_while_postgres_is_away_delivers_when_it_is_back(
    shop: PoolTenant, bare_server: BareServer
) -> None:
    ids = await shop.post(range(20))
    key = (await JobQueue(shop.database, shop.pool_no).scan(0, 1))[0].key
    await job_queue.mark_pending(shop.database, [key])
    bare_server.stop()
    starting = asyncio.create_task(run(shop))
    await asyncio.sleep(0.5)
    assert not starting.done()
    await asyncio.to_thread(bare_server.start)
    await starting
    assert {one.job_id for one in shop.came} == set(ids)
    assert {json.loads(one.body)["n"] for one in shop.came} == set(range(20))


async def run(shop: PoolTenant) -> None:
    async with shop.working():
        await shop.done(20)
