"""The database moves to a server with another clock: deadlines set from then on are right.

The connections end, as they do in a failover, and whoever connects again meets another time. What
was stored before keeps the time that it was stored with; what was not yet is decided again.
"""

import asyncio
import time

import pytest

from actors.timers.timer_actor import TimerActor
from core.shared.config import Config
from core.waits.messages import OfferReply, RegisterReply, Reply, Verdict
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import PoolOptions, open_pool
from tests.support.moved_clock import disconnect_all, moved_clock
from tests.support.shards import BOTH, address, api, ask, register, running_shard
from tests.support.trouble import read_only

JUMPS = pytest.mark.parametrize("jump", [-600.0, 600.0])


@JUMPS
async def test_a_wait_registered_right_after_the_jump_has_the_right_deadline(
    database: str, jump: float
) -> None:
    async with moved_clock(database) as move, running_shard(database) as shard:
        await ask(shard, register(address(), fresh=True))
        await move(jump)
        await disconnect_all(database)
        reply = await ask(shard, register(address(), fresh=True))
    assert timeout_of(reply, jump) == pytest.approx(60, abs=5)


@JUMPS
async def test_what_was_decided_before_the_jump_and_not_stored_is_decided_again(
    database: str, jump: float
) -> None:
    """Among them an early event, and a callback for a wait that was stored long ago."""
    old, new, early = address(), address(), address()
    async with moved_clock(database) as move, running_shard(database) as shard:
        await ask(shard, register(old, BOTH | {"timeout": 900}))
        async with read_only(database):
            coming = [
                asyncio.create_task(ask(shard, message))
                for message in (register(new, fresh=True), api(new), api(early), api(old))
            ]
            await asyncio.sleep(0.3)
            await move(jump)
        opened, *judged = await asyncio.wait_for(asyncio.gather(*coming), 20)
        pool = await open_pool(PoolOptions(dsn=database, name="test"))
        parked_at = await pool.fetchval("select extract(epoch from received_at) from event_inbox")
        pool.terminate()
    assert timeout_of(opened, jump) == pytest.approx(60, abs=5)
    assert [one.verdict for one in judged if isinstance(one, OfferReply)] == [
        Verdict.MATCHED,
        Verdict.BUFFERED,
        Verdict.MATCHED,
    ]
    assert float(parked_at) - time.time() == pytest.approx(jump, abs=10)


@JUMPS
async def test_every_new_connection_measures_the_clock(database: str, jump: float) -> None:
    clock = DatabaseClock(time.monotonic, time.time)
    async with moved_clock(database) as move:
        pool = await open_pool(PoolOptions(dsn=database, name="test"), clock.measure)
        await clock.sync(pool)
        await move(jump)
        await pool.expire_connections()
        await pool.fetchval("select 1")
        assert clock.now() - time.time() == pytest.approx(jump, abs=5)
        assert clock.moves == 1
        pool.terminate()


async def test_the_timer_asks_again_when_a_shard_has_another_time(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would think that the deadline has passed long ago."""
    actor = TimerActor("timer", Config(dsn=database))
    clock = actor._environment.clock
    async with moved_clock(database) as move:
        pool = await open_pool(PoolOptions(dsn=database, name="test"), clock.measure)
        await clock.sync(pool)
        actor._database = pool
        monkeypatch.setattr(actor, "_begin", lambda: None)
        await move(-600)
        await actor.arm([], time.time() - 600)
        assert clock.now() - time.time() == pytest.approx(-600, abs=5)
        pool.terminate()


def timeout_of(reply: Reply, jump: float) -> float:
    """How long a wait lasts on the clock as it is after the jump."""
    assert isinstance(reply, RegisterReply)
    return reply.expires_at - (time.time() + jump)
