"""What the sweeper offers again, and what it forgets of deliveries."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from actors.maintenance.cleanup import SEEN_AFTER, Sweeper
from core.dispatch.job import JobStatus
from core.kafka.message import KafkaMessage
from core.shared.address import Address
from core.shared.config import Config
from core.waits.messages import Reply, WaitMessage
from core.waits.transitions import apply
from storage.access import keys
from storage.events import events
from storage.kafka import dead_letters
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits.flush import NO_VERSION, FlushWriter, WaitChange
from tests.support.dispatch import NOW, JobFactory
from tests.support.happenings import NOW as THEN
from tests.support.happenings import event, jobs, subscription
from tests.support.shards import BOTH, address, api, ask, register, running_shard, statuses

ANY = BOTH | {"aggregationStrategy": "any"}


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    yield pool
    pool.terminate()


async def nobody(_: list[WaitMessage]) -> list[Reply]:
    raise AssertionError("nothing is stranded here")


async def park(pool: Pool, where: Address) -> None:
    """An event, from an owner that had looked before the registration was committed."""
    parked = list(apply(None, api(where), 1.0).parked)
    await write(pool, WaitChange(where.key, 1, NO_VERSION, None, [], parked, []))


async def open_wait(pool: Pool, where: Address) -> None:
    """A registration, by an owner that had looked before the event was committed."""
    wait = apply(None, register(where, ANY), time.time()).wait
    await write(pool, WaitChange(where.key, 1, NO_VERSION, wait))


async def write(pool: Pool, change: WaitChange) -> None:
    async with pool.acquire() as conn:
        await FlushWriter("another", 10**10).flush(conn, [change])


async def test_what_two_owners_let_pass_is_offered_again(database: str, pool: Pool) -> None:
    where = address()
    async with running_shard(database) as shard:
        await ask(shard, register(where, ANY))
        await park(pool, where)
        sweeper = Sweeper(Config(dsn=database), pool, shard.handle, time.time)
        assert await sweeper.reoffer() == 1
        assert await sweeper.reoffer() == 0
        assert await statuses(pool) == {"completed": 1}


async def test_a_round_looks_at_a_slice_of_the_inbox(
    database: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.maintenance.cleanup.SLICE", 4)
    monkeypatch.setattr("actors.maintenance.cleanup.BATCH", 1)
    first, *others, last, at_the_end = (address() for _ in range(6))
    async with running_shard(database) as shard:
        sweeper = Sweeper(Config(dsn=database), pool, shard.handle, time.time)
        for where in (first, *others, last, at_the_end):
            await park(pool, where)
        for where in (last, at_the_end):
            await open_wait(pool, where)
        assert await sweeper.reoffer() == 0
        assert await sweeper.reoffer() == 2
        # One that was passed by is met after the end, though there is always something new.
        await open_wait(pool, first)
        await park(pool, address())
        assert await sweeper.reoffer() == 1
        assert await statuses(pool) == {"completed": 3}
        assert await pool.fetchval("select count(*) from event_inbox") == len(others) + 1


async def test_an_empty_inbox_is_looked_at_again(database: str, pool: Pool) -> None:
    where = address()
    async with running_shard(database) as shard:
        sweeper = Sweeper(Config(dsn=database), pool, shard.handle, time.time)
        assert await sweeper.reoffer() == 0
        await park(pool, where)
        assert await sweeper.reoffer() == 0
        await open_wait(pool, where)
        assert await sweeper.reoffer() == 1


async def test_what_is_past_its_time_is_forgotten(database: str, pool: Pool) -> None:
    async with running_shard(database) as shard:
        ended, open_ = address(), address()
        await ask(shard, api(address()))
        await ask(shard, register(open_))
        await ask(shard, register(ended, BOTH | {"aggregationStrategy": "any"}))
        await ask(shard, api(ended))
        await pool.execute(
            "update execution_wait_states set due_at = now() - interval '30 days',"
            " updated_at = now() - interval '30 days'"
        )
        await pool.execute("update event_inbox set expires_at = now()")
        for offset in (1, 2):
            record = KafkaMessage(topic="t", partition=0, offset=offset, value=b"{")
            await dead_letters.add(pool, 1, [(record, "not JSON")])
        await pool.execute(
            "update dead_letters set failed_at = now() - interval '30 days' where kafka_offset = 1"
        )
        sweeper = Sweeper(Config(dsn=database), pool, shard.handle, time.time)
        assert await sweeper.forget() == 3
        assert await dead_letters.count(pool, 1) == {"t": 1}
        assert await statuses(pool) == {"waiting": 1}
        assert await pool.fetchval("select count(*) from wait_state_events") == 0


async def test_to_forget_takes_half_of_the_time_at_most(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, worked = [500, 500, 3], list[float]()

    async def expire(_pool: Pool, _limit: int) -> int:
        began = time.monotonic()
        await asyncio.sleep(0.02)
        worked.append(time.monotonic() - began)
        return left.pop(0) if left else 0

    monkeypatch.setattr("actors.maintenance.cleanup.inbox.expire", expire)
    began = time.monotonic()
    assert await Sweeper(Config(dsn=""), pool, nobody, time.time).forget() == 1003
    # The last look, which found nothing, needs no rest.
    assert time.monotonic() - began >= sum(worked) + sum(worked[:-1]) - 0.01


async def test_jobs_of_every_tenant_and_old_warnings_go(database: str, pool: Pool) -> None:
    config = Config(dsn=database)
    for slug in ("acme", "other"):
        work = JobFactory(pool, await keys.create_tenant(pool, slug), 1)
        done = await work.post()
        await work.put(done, JobStatus.COMPLETED, "done")
        waiting = await work.post()
        warning = NewWarning(
            tenant=work.tenant,
            category="c",
            severity=Severity.WARNING,
            source="s",
            message="m",
        )
        await warnings.warn(pool, warning)
        assert (await work.status(waiting))[1] == "open"
    await pool.execute(
        "update dispatch_warnings set last_at = now() - $1 * interval '1 second'"
        " where tenant_id = $2",
        SEEN_AFTER + 1,
        work.tenant,
    )

    def sweeper(now: float) -> Sweeper:
        return Sweeper(config, pool, nobody, lambda: now)

    assert await sweeper(NOW + config.retention - 1).forget() == 0
    assert await sweeper(NOW + config.retention + 1).forget() == 2
    assert await sweeper(NOW + config.retention + 1).forget() == 0
    assert await pool.fetchval("select count(*) from dispatch_jobs") == 2
    seen = "select count(*) from dispatch_warnings where acknowledged_by = 'muster'"
    assert await pool.fetchval(seen) == 1


async def test_an_event_goes_once_its_jobs_have_gone(database: str, pool: Pool) -> None:
    tenant = await keys.create_tenant(pool, "acme")
    config = Config(dsn=database)
    ended, busy, alone = event(tenant), event(tenant), event(tenant)
    await events.flush(pool, [ended, busy, alone], jobs([ended, busy], subscription(tenant)))
    await pool.execute(
        "update dispatch_jobs set status = 'COMPLETED', standing = 'done', completed_at = now()"
        " where event_id = $1",
        ended.event_id,
    )

    def sweeper(now: float) -> Sweeper:
        return Sweeper(config, pool, nobody, lambda: now)

    assert await sweeper(THEN + config.retention - 1).forget() == 0
    assert await sweeper(THEN + config.retention + 1).forget() == 3
    assert await events.read(pool, tenant, busy.event_id) == busy
    assert await events.read(pool, tenant, ended.event_id) is None


async def test_stranded_events_are_offered_so_many_bytes_at_a_time(
    database: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.maintenance.cleanup.BATCH_BYTES", 25)
    offered: list[int] = []
    async with running_shard(database) as shard:

        async def offer(messages: list[WaitMessage]) -> list[Reply]:
            offered.append(len(messages))
            return await shard.handle(messages)

        places = [address() for _ in range(5)]
        for where in places:
            await ask(shard, register(where, ANY))
            await park(pool, where)  # eleven bytes
        sweeper = Sweeper(Config(dsn=database), pool, offer, time.time)
        assert await sweeper.reoffer() == 5
    assert offered == [3, 2]
