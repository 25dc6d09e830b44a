"""A subscription that gets another pool: what waits in order goes along."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from core.dispatch.attempt import JobTransition
from core.dispatch.job import GroupKey, JobKey, JobStatus, Mode
from core.dispatch.subscription import Subscription, SubscriptionRefusal
from storage.access import keys
from storage.dispatch import groups, pools, subscription_moves
from storage.dispatch import subscriptions as store
from storage.dispatch.groups import PoolGroupKey
from storage.dispatch.job_queue import JobQueue, JobResult
from storage.dispatch.pools import NewPool, PoolRow
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.postgres.queries import Q
from tests.support.dispatch import JobFactory
from tests.support.subscriptions import subscription

OLD = 1
GRACE = 15.0
DONE = JobTransition(status=JobStatus.COMPLETED, attempt_count=1, attempt_number=1)


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def jobs(pool: Pool) -> JobFactory:
    return JobFactory(pool, await keys.create_tenant(pool, "acme"), OLD)


@pytest.fixture
async def new(pool: Pool, jobs: JobFactory) -> int:
    made = await pools.create(
        pool, jobs.tenant, NewPool(pool_id="dpl_new", code="new", name="New"), 20
    )
    assert isinstance(made, PoolRow)
    return made.pool_no


@pytest.fixture
async def orders(jobs: JobFactory) -> Subscription:
    made = await store.create(jobs.pool, subscription(jobs.tenant), b"secret")
    assert isinstance(made, Subscription)
    return made


async def wanted(
    jobs: JobFactory, orders: Subscription, group: str = "orders:g", **fields: Any
) -> str:
    """A job of the subscription."""
    job_id = await jobs.grouped(group, **fields)
    await jobs.pool.execute(
        "update dispatch_jobs set subscription_id = $2 where job_id = $1",
        job_id,
        orders.subscription_id,
    )
    return job_id


async def move(
    jobs: JobFactory, orders: Subscription, pool_no: int
) -> SubscriptionRefusal | Subscription:
    return await store.change(
        jobs.pool, jobs.tenant, orders.code, lambda held: replace(held, pool_no=pool_no)
    )


async def claim(jobs: JobFactory, pool_no: int, *ids: str) -> list[str]:
    keys = [JobKey(jobs.tenant, job_id) for job_id in ids]
    return [one.job_id for one in await JobQueue(jobs.pool, pool_no, "me", GRACE).claim(keys)]


async def where(jobs: JobFactory, job_id: str) -> int:
    found: int = await jobs.pool.fetchval(
        "select pool_no from dispatch_jobs where job_id = $1", job_id
    )
    return found


async def test_nothing_newer_passes_what_waited_in_the_old_pool(
    jobs: JobFactory, orders: Subscription, new: int
) -> None:
    first, second = [await wanted(jobs, orders) for _ in range(2)]
    assert isinstance(await move(jobs, orders, new), Subscription)
    third = await wanted(jobs, orders, pool_no=new)
    assert await claim(jobs, OLD, first, second) == []
    assert await claim(jobs, new, third, second) == []
    assert await claim(jobs, new, first) == [first]
    again = await JobQueue(jobs.pool, new).unclaimed(0, 10)
    assert [one.job_id for one in again] == [second], "the new pool finds it by itself"


async def test_what_is_being_sent_goes_along_and_is_ended_by_whoever_sends_it(
    jobs: JobFactory, orders: Subscription, new: int
) -> None:
    first, second = [await wanted(jobs, orders) for _ in range(2)]
    assert await claim(jobs, OLD, first) == [first]
    await move(jobs, orders, new)
    assert await jobs.status(first) == ("IN_PROGRESS", "again")
    assert await claim(jobs, new, first, second) == []
    key = JobKey(jobs.tenant, first)
    assert await JobQueue(jobs.pool, 0).finish([JobResult(key, 1, DONE, None)]) == {key: 0.0}
    assert await claim(jobs, new, second) == [second]


async def test_what_failed_blocks_in_the_new_pool(
    jobs: JobFactory, orders: Subscription, new: int
) -> None:
    failed, behind = [await wanted(jobs, orders) for _ in range(2)]
    await jobs.fail(failed)
    await move(jobs, orders, new)
    assert await jobs.status(failed) == ("ERROR", "error")
    assert await where(jobs, failed) == new
    assert await claim(jobs, new, behind) == []


async def test_only_what_keeps_an_order_and_is_its_own_goes(
    jobs: JobFactory, orders: Subscription, new: int
) -> None:
    at_once = await wanted(jobs, orders, mode=Mode.IMMEDIATE)
    done = await wanted(jobs, orders)
    await jobs.put(done, JobStatus.COMPLETED, "done")
    posted = await jobs.grouped("orders:g")
    passing = await wanted(jobs, orders, mode=Mode.NEXT_ON_ERROR)
    await move(jobs, orders, new)
    assert [await where(jobs, one) for one in (at_once, done, posted)] == [OLD] * 3
    assert await where(jobs, passing) == new
    assert await claim(jobs, OLD, at_once, posted) != []


async def test_what_people_hold_back_stays_held_back(
    jobs: JobFactory, orders: Subscription, new: int
) -> None:
    waiting = await wanted(jobs, orders, group="orders:held")
    shared = await wanted(jobs, orders, group="orders:shared")
    await jobs.grouped("orders:shared")  # of nobody's subscription
    for group in ("orders:held", "orders:shared", "orders:empty", "ordersx", "other:held"):
        place = PoolGroupKey(OLD, group)
        await groups.park(jobs.pool, jobs.tenant, place, "why", "me")
    await move(jobs, orders, new)
    names = {"orders:held", "orders:shared", "orders:empty"}
    parked = await JobQueue(jobs.pool, new).parked_groups()
    assert parked == {GroupKey(jobs.tenant, name) for name in names}
    left = await JobQueue(jobs.pool, OLD).parked_groups()
    assert {one.name for one in left} == {"ordersx", "other:held", "orders:shared"}
    assert [await where(jobs, one) for one in (waiting, shared)] == [new, new]


async def test_more_than_fits_into_one_transaction_stays(
    jobs: JobFactory, orders: Subscription, new: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_moves, "MAX_MOVED", 3)
    ids = [await wanted(jobs, orders) for _ in range(4)]
    assert await move(jobs, orders, new) is SubscriptionRefusal.TOO_MANY_JOBS
    found = await store.read(jobs.pool, jobs.tenant, orders.code)
    assert found is not None
    assert found.pool_no == OLD
    await jobs.put(ids[0], JobStatus.COMPLETED, "done")
    assert isinstance(await move(jobs, orders, new), Subscription)


@pytest.mark.parametrize("query", ["count_ordered_jobs", "move_ordered_jobs"])
async def test_other_tenants_jobs_are_not_read(
    jobs: JobFactory, orders: Subscription, new: int, query: str
) -> None:
    other = await keys.create_tenant(jobs.pool, "other")
    await jobs.pool.execute(
        "insert into dispatch_jobs (tenant_id, job_id, pool_no, kind, code, target_url,"
        " message_group, mode, sequence, max_retries, timeout_seconds, data_only)"
        " select $1, 'J' || n, 1, 'TASK', 'c', 't', 'g' || n % 100, 'BLOCK_ON_ERROR', 99, 3, 30,"
        " true from generate_series(1, 5000) n",
        other,
    )
    await wanted(jobs, orders)
    last = {"count_ordered_jobs": 100, "move_ordered_jobs": new}[query]
    arguments = (jobs.tenant, orders.subscription_id, OLD, last)
    plan = await jobs.pool.fetch(f"explain (analyze) {Q[query]}", *arguments)
    told = "\n".join(row[0] for row in plan)
    assert "Index Scan using dispatch_jobs_group" in told
    assert "Rows Removed by Filter: 5" not in told
    assert "Seq Scan on" not in told
