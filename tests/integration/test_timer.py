"""The timer on a real Postgres: everything that is due fires, across restarts and failures."""

import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from actors.process import mint
from actors.shard import Shard
from actors.timer import Timer
from core.config import Config
from core.errors import UnavailableError
from core.messages import Message, Opened, Reply
from storage.clock import DatabaseClock
from storage.deadlines import DeadlineStore
from storage.pool import Pool, PoolOptions, open_pool
from tests.support.shards import BOTH, address, ask, register, running_shard, statuses


@contextlib.asynccontextmanager
async def reading(dsn: str) -> AsyncIterator[tuple[Pool, DatabaseClock]]:
    pool = await open_pool(PoolOptions(dsn=dsn, name="test"))
    clock = DatabaseClock(time.monotonic, time.time)
    await clock.sync(pool)
    yield pool, clock
    pool.terminate()


def timer_on(dsn: str, pool: Pool, shard: Shard, now: float) -> Timer:
    return Timer(Config(dsn=dsn), DeadlineStore(pool), shard.handle, lambda: now, mint)


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
        assert isinstance(opened, Opened)
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

        async def flaky(messages: list[Message]) -> list[Reply]:
            if not answers.pop(0):
                raise UnavailableError("away")
            return await shard.handle(messages)

        now = [clock.now() + 2]
        timer = Timer(Config(dsn=database), DeadlineStore(pool), flaky, lambda: now[0], mint)
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
