"""Changes are heard at once: by other pools, by other processes, and after a cut connection."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import asyncpg
import pytest

from services.events.subscription_cache import SubscriptionCache
from services.shared.change_listener import ChangeListener
from storage.access import keys
from storage.dispatch import subscriptions
from storage.postgres.migrate import migrate
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.postgres import BareServer
from tests.support.subscriptions import CREATED, subscription

PATIENCE = 20.0
CUT = """
select pg_terminate_backend(pid, 5000)
  from pg_stat_activity
 where application_name = $1 and datname = current_database()
"""


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "acme")


class Listener:
    """A process's part: a pool of its own, a cache, and notices that clear it."""

    def __init__(self, dsn: str, pool: Pool) -> None:
        self.notices = ChangeListener(ask_every=0.2)
        self.cache = SubscriptionCache(partial(subscriptions.matching, pool), time.monotonic)
        self.called = asyncio.Event()
        self.notices.on_change("subscriptions", self.cache.clear)
        self.notices.on_change("subscriptions", self.called.set)
        self.running = asyncio.create_task(self.notices.run_forever(dsn))
        self._pool = pool

    async def hears(self) -> None:
        """Until it is told of a change, or that it may have missed one."""
        async with asyncio.timeout(PATIENCE):
            await self.called.wait()
        self.called.clear()

    async def codes(self, tenant: int) -> list[str]:
        return [one.code for one in await self.cache.matching(tenant, CREATED)]

    async def close(self) -> None:
        self.running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.running
        await self._pool.close()


Listen = Callable[[], Awaitable[Listener]]


@pytest.fixture
async def listen(database: str) -> AsyncIterator[Listen]:
    made: list[Listener] = []

    async def make() -> Listener:
        pool = await open_pool(PoolOptions(dsn=database, name="other"))
        made.append(Listener(database, pool))
        await made[-1].hears()  # once it listens
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_a_change_is_heard_by_everybody_who_listens(
    pool: Pool, tenant: int, listen: Listen
) -> None:
    listeners = [await listen(), await listen()]
    for one in listeners:
        assert await one.codes(tenant) == []
    await subscriptions.create(pool, subscription(tenant), b"s")
    for one in listeners:
        await one.hears()
        assert await one.codes(tenant) == ["orders"]
    await subscriptions.pause(pool, tenant, "orders")
    for one in listeners:
        await one.hears()
        assert await one.codes(tenant) == []


async def test_what_was_missed_while_the_connection_was_cut_is_made_up_for(
    pool: Pool, tenant: int, listen: Listen
) -> None:
    one = await listen()
    assert await one.codes(tenant) == []
    # It comes back after a pause, and by then the change was told to nobody.
    await pool.fetch(CUT, "muster change_listener")
    await subscriptions.create(pool, subscription(tenant), b"s")
    await one.hears()
    async with asyncio.timeout(PATIENCE):
        await one.notices.listening.wait()
        while await one.codes(tenant) != ["orders"]:
            await one.hears()
    await subscriptions.pause(pool, tenant, "orders")
    while await one.codes(tenant) != []:
        await one.hears()


async def test_a_call_that_fails_does_not_keep_others_from_hearing(
    pool: Pool, tenant: int, listen: Listen
) -> None:
    one = await listen()

    def fails() -> None:
        raise RuntimeError

    later = asyncio.Event()
    one.notices.on_change("subscriptions", fails)
    one.notices.on_change("subscriptions", later.set)
    await subscriptions.create(pool, subscription(tenant), b"s")
    async with asyncio.timeout(PATIENCE):
        await later.wait()
    assert not one.running.done()


async def test_a_change_says_whose_it_is(pool: Pool, tenant: int, listen: Listen) -> None:
    one, whose = await listen(), []
    one.notices.on_tenant_change("subscriptions", whose.append)
    await subscriptions.create(pool, subscription(tenant), b"s")
    await one.hears()
    await pool.execute("select pg_notify('muster_changes', 'subscriptions')")
    await one.hears()
    assert whose == [tenant, None]


async def test_topics_are_told_apart(pool: Pool, listen: Listen) -> None:
    one = await listen()
    pools = asyncio.Event()
    one.notices.on_change("pools", pools.set)
    await pool.execute("select pg_notify('muster_changes', 'something else')")
    await pool.execute("select pg_notify('muster_changes', 'pools')")
    async with asyncio.timeout(PATIENCE):
        await pools.wait()
    assert not one.called.is_set()


async def test_a_server_that_is_away_is_waited_for(bare_server: BareServer) -> None:
    await migrate(bare_server.dsn)
    bare_server.stop()
    notices, called = ChangeListener(), asyncio.Event()
    notices.on_change("pools", called.set)
    running = asyncio.create_task(notices.run_forever(bare_server.dsn))
    await asyncio.sleep(0)
    bare_server.start()
    async with asyncio.timeout(PATIENCE):
        await called.wait()
    assert notices.listening.is_set()
    called.clear()
    bare_server.stop("immediate")
    bare_server.start()
    async with asyncio.timeout(PATIENCE):
        await called.wait()
        conn = await asyncpg.connect(bare_server.dsn)
        called.clear()
        await conn.execute("select pg_notify('muster_changes', 'pools')")
        await called.wait()
        await conn.close()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not notices.listening.is_set()


PROCESS = """
import asyncio, sys, time
from functools import partial
from services.shared.change_listener import ChangeListener
from services.events.subscription_cache import SubscriptionCache
from storage.dispatch import subscriptions
from storage.postgres.pool import PoolOptions, open_pool

async def main(dsn, tenant, type_):
    pool = await open_pool(PoolOptions(dsn=dsn, name="process"))
    cache = SubscriptionCache(partial(subscriptions.matching, pool), time.monotonic)
    listener, changed = ChangeListener(), asyncio.Event()
    listener.on_change("subscriptions", cache.clear)
    listener.on_change("subscriptions", changed.set)
    running = asyncio.create_task(listener.run_forever(dsn))
    while True:
        await changed.wait()
        changed.clear()
        for _ in range(2):
            found = [one.code for one in await cache.matching(tenant, type_)]
        print(",".join(found), flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
"""


async def test_another_process_hears_it_too(pool: Pool, tenant: int, database: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROCESS,
        database,
        str(tenant),
        CREATED,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"\n"
            await subscriptions.create(pool, subscription(tenant, "first"), b"s")
            assert await process.stdout.readline() == b"first\n"
            await subscriptions.create(pool, subscription(tenant, "second"), b"s")
            assert await process.stdout.readline() == b"first,second\n"
            await subscriptions.drop(pool, tenant, "first")
            assert await process.stdout.readline() == b"second\n"
    finally:
        process.kill()
        await process.wait()


async def test_whoever_wants_is_told_that_the_database_was_reached_anew(
    bare_server: BareServer,
) -> None:
    await migrate(bare_server.dsn)
    listener, reached = ChangeListener(), asyncio.Event()
    listener.on_connect(reached.set)
    running = asyncio.create_task(listener.run_forever(bare_server.dsn))
    for _ in range(2):
        async with asyncio.timeout(PATIENCE):
            await reached.wait()
        reached.clear()
        await asyncio.to_thread(bare_server.stop, "immediate")
        await asyncio.to_thread(bare_server.start)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
