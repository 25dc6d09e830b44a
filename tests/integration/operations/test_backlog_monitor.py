"""Deliveries that do not get on become warnings."""

from collections.abc import AsyncIterator

import pytest

from actors.maintenance.backlog_monitor import BacklogMonitor
from core.dispatch.job import JobStatus, Mode
from storage.access import keys
from storage.dispatch import stats
from storage.dispatch.stats import QueueSize
from storage.operations import warnings as dispatch_warnings
from storage.operations.warnings import WarningFilter
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.dispatch import JobFactory


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


@pytest.fixture
async def jobs(pool: Pool) -> JobFactory:
    return JobFactory(pool, await keys.create_tenant(pool, "acme"), 1)


async def pile_up(jobs: JobFactory, number: int) -> None:
    await jobs.pool.execute(
        "insert into dispatch_jobs (tenant_id, job_id, pool_no, kind, code, target_url, mode,"
        " sequence, max_retries, timeout_seconds, data_only)"
        " select $1, gen_random_uuid()::text, 1, 'TASK', 'c', 't', 'IMMEDIATE', 99, 3, 30, true"
        " from generate_series(1, $2)",
        jobs.tenant,
        number,
    )


async def told(jobs: JobFactory, tenant: int | None = None) -> dict[str, str]:
    found = await dispatch_warnings.page(
        jobs.pool, jobs.tenant if tenant is None else tenant, WarningFilter(), None, 100
    )
    return {one.category: one.message for one in found}


async def test_a_backlog_and_its_growth_are_told_to_whose_it_is(
    jobs: JobFactory, pool: Pool
) -> None:
    watch = BacklogMonitor(pool)
    other = await keys.create_tenant(pool, "other")
    for number in (900, 40, 40):
        await pile_up(jobs, number)
        assert await watch.check() == 0
    await pile_up(jobs, 40)
    assert await watch.check() == 2
    warnings = await told(jobs)
    assert warnings["QUEUE_BACKLOG"].startswith("1020 jobs wait in pool default")
    assert warnings["QUEUE_GROWING"].startswith("120 more jobs")
    assert await told(jobs, other) == {}
    await watch.check()
    (again,) = [
        one.count
        for one in await dispatch_warnings.page(pool, jobs.tenant, WarningFilter(), None, 9)
        if one.category == "QUEUE_BACKLOG"
    ]
    assert again == 2


async def test_a_group_that_cannot_go_on_is_named(jobs: JobFactory, pool: Pool) -> None:
    await jobs.fail(await jobs.grouped("orders:7"))
    await jobs.fail(await jobs.grouped("passes", Mode.NEXT_ON_ERROR))
    await jobs.fail(await jobs.post())
    assert await BacklogMonitor(pool).check() == 1
    assert "orders:7" in (await told(jobs))["GROUP_BLOCKED"]


async def test_a_queue_is_counted_by_what_its_jobs_wait_for(jobs: JobFactory, pool: Pool) -> None:
    others = JobFactory(pool, await keys.create_tenant(pool, "other"), 1)
    await others.post()
    ready, later, taken, done = [await jobs.post() for _ in range(4)]
    await jobs.take(taken)
    await jobs.put(done, JobStatus.COMPLETED, "done")
    await pool.execute(
        "update dispatch_jobs set scheduled_for = now() + interval '1 hour' where job_id = $1",
        later,
    )
    sizes = await stats.queue_sizes(pool, jobs.tenant, [1, 99], 100)
    assert sizes == {1: QueueSize(1, 1, 1), 99: QueueSize()}
    assert ready
