"""The timer on a real Postgres: everything that is due fires, across restarts and failures."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from actors.timers.timer import Timer
from actors.waits.shard import Shard
from core.shared.config import Config
from core.shared.errors import UnavailableError
from core.waits.messages import RegisterReply, Reply, WaitMessage
from services.shared.process import new_turn_id
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits.deadlines import DeadlineStore
from tests.support.moved_clock import moved_clock
from tests.support.shards import BOTH, address, ask, register, running_shard, statuses


@contextlib.asynccontextmanager
async def reading(dsn: str) -> AsyncIterator[tuple[Pool, DatabaseClock]]:
    pool = await open_pool(PoolOptions(dsn=dsn, name="test"))
    clock = DatabaseClock(time.monotonic, time.time)
    await clock.sync(pool)
    yield pool, clock
    pool.terminate()


def timer_on(dsn: str, pool: Pool, shard: Shard, now: float) -> Timer:
    return Timer(Config(dsn=dsn), DeadlineStore(pool), shard.handle, lambda: now, new_turn_id)


async def test_only_what_is_due_fires(database: str) -> None:
    soon, later = [address() for _ in range(30)], [address() for _ in range(5)]
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        await shard.handle([register(where, BOTH | {"timeout": 2}) for where in soon])
        await shard.handle([register(where, BOTH | {"timeout": 900}) for where in later])
        timer = timer_on(database, pool, shard, clock.now() + 3)
        await timer.start()
        timer.tick()
        await timer.settled()
        assert await statuses(pool) == {"timeout": 30, "waiting": 5}
        assert timer.snapshot()["fired"] == 30


async def test_a_new_timer_picks_up_what_the_old_one_had_not_fired(database: str) -> None:
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        opened = await ask(shard, register(address(), BOTH | {"timeout": 2}))
        assert isinstance(opened, RegisterReply)
        first = timer_on(database, pool, shard, clock.now())
        await first.start()
        await first.sweep()  # writes its mark, then dies
        second = timer_on(database, pool, shard, clock.now() + 60)
        await second.start()
        second.tick()
        await second.settled()
        assert await statuses(pool) == {"timeout": 1}


async def test_a_deadline_committed_behind_the_horizon_is_swept_up(database: str) -> None:
    """A shard that stalled between computing a deadline and committing it loses no timeout."""
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        timer = timer_on(database, pool, shard, clock.now() + 30)
        await timer.start()
        await ask(shard, register(address(), BOTH | {"timeout": 1}))
        timer.tick()
        await timer.settled()
        assert await statuses(pool) == {"waiting": 1}
        await timer.sweep()
        timer.tick()
        await timer.settled()
        assert await statuses(pool) == {"timeout": 1}


async def test_a_shard_that_is_away_is_asked_again(database: str) -> None:
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        await ask(shard, register(address(), BOTH | {"timeout": 1}))
        answers: list[bool] = [False, True]

        async def flaky(messages: list[WaitMessage]) -> list[Reply]:
            if not answers.pop(0):
                raise UnavailableError("away")
            return await shard.handle(messages)

        now = [clock.now() + 2]
        timer = Timer(Config(dsn=database), DeadlineStore(pool), flaky, lambda: now[0], new_turn_id)
        await timer.start()
        timer.tick()
        await timer.settled()
        now[0] += 1
        timer.tick()
        await timer.settled()
        assert await statuses(pool) == {"timeout": 1}
        assert timer.snapshot()["retried"] == 1


async def test_per_event_deadlines_are_enforced_one_after_the_other(database: str) -> None:
    config = {
        "apiCall": {"url": "http://127.0.0.1:9/", "timeout": 1, "required": False},
        "kafkaEvent": {"topic": "t", "timeout": 5},
        "aggregationStrategy": "required_only",
        "timeout": 10,
    }
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        await ask(shard, register(address(), config))
        for later, expected in ((2, "waiting"), (6, "timeout")):
            timer = timer_on(database, pool, shard, clock.now() + later)
            await timer.start()
            timer.tick()
            await timer.settled()
            assert await statuses(pool) == {expected: 1}


@pytest.mark.parametrize("offset", [-300.0, 300.0])
async def test_the_clock_is_the_databases(database: str, offset: float) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    clock = DatabaseClock(time.monotonic, lambda: time.time() + offset)
    await clock.sync(pool)
    database_now = await pool.fetchval("select extract(epoch from clock_timestamp())::float8")
    assert abs(clock.now() - database_now) < 0.5
    pool.terminate()


async def test_waiting_for_a_connection_does_not_move_the_clock(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test", max_size=1))
    clock = DatabaseClock(time.monotonic, time.time)
    await clock.sync(pool)
    async with pool.acquire() as conn:
        waiting = asyncio.create_task(clock.sync(pool))
        await conn.execute("select pg_sleep(1)")
    await waiting
    database_now = await pool.fetchval("select extract(epoch from clock_timestamp())::float8")
    assert abs(clock.now() - database_now) < 0.25
    pool.terminate()


@pytest.mark.parametrize("jump", [-600.0, 600.0])
async def test_a_clock_that_was_moved_is_followed_by_the_next_sync(
    database: str, jump: float
) -> None:
    async with moved_clock(database) as move, reading(database) as (pool, clock):
        before = clock.now()
        await move(jump)
        await clock.sync(pool)
        assert clock.now() - before == pytest.approx(jump, abs=5)


async def test_more_waits_than_a_page_that_share_a_deadline_all_fire(database: str) -> None:
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        await shard.handle([register(address(), BOTH | {"timeout": 2}) for _ in range(25)])
        await pool.execute("update execution_wait_states set due_at = date_trunc('minute', now())")
        store = DeadlineStore(pool, page=10)
        async with asyncio.timeout(30):
            pages = [page async for page in store.due_between(0.0, clock.now() + 3)]
        assert [len(page) for page in pages] == [10, 10, 5]
        assert len({due.address for page in pages for due in page}) == 25
        timer = Timer(
            Config(dsn=database), store, shard.handle, lambda: clock.now() + 3, new_turn_id
        )
        await timer.start()
        timer.tick()
        await timer.settled()
        assert await statuses(pool) == {"timeout": 25}


async def test_deadlines_made_after_the_clock_was_put_back_are_found_by_a_new_timer(
    database: str,
) -> None:
    """The mark of the timer before it is ahead of them."""
    async with running_shard(database) as shard, reading(database) as (pool, clock):
        ahead = timer_on(database, pool, shard, clock.now() + 600)
        await ahead.start()
        await ahead.sweep()
        await ask(shard, register(address(), BOTH | {"timeout": 1}))
        # Dead for longer than a row may be late, and the mark is still to come.
        behind = timer_on(database, pool, shard, clock.now() + 300)
        await behind.start()
        behind.tick()
        await behind.settled()
        assert await statuses(pool) == {"timeout": 1}
        await behind.sweep()
        mark = await DeadlineStore(pool).read_watermark()
        assert mark is not None
        assert mark < clock.now() + 301
