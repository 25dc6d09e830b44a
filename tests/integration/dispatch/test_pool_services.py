"""A subscription that only fails: paused, warned of, and told of by an event that is delivered."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.dispatch.pool_services import PoolServices
from actors.dispatch.subscription_health import MIN_FAILURES
from actors.dispatch.system_events import SUBSCRIPTION_DISABLED
from actors.runtime.directory import Directory
from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, ErrorType, JobTransition
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobStatus, Kind
from core.dispatch.subscription import Binding, Subscription, SubscriptionStatus
from core.shared.config import Config
from storage.access import keys
from storage.dispatch import subscriptions
from storage.operations import warnings
from storage.operations.warnings import WarningFilter
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.subscriptions import subscription

PATIENCE = 0.2
BAD = DeliveryAttempt(
    status=AttemptStatus.SERVER_ERROR, error_type=ErrorType.TRANSIENT, counts_as_failure=True
)
FAILED = JobTransition(status=JobStatus.ERROR, attempt_count=3, attempt_number=3, error="HTTP 500")


class NoPools(Directory):
    """No actor is there: jobs have to be found in Postgres."""

    async def handle(self, name: str) -> Any:
        raise ValueError(f"there is no {name}")


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", plan_each_time=True))
    yield opened
    await opened.close()


def delivery(tenant: int, subscription_id: str) -> ClaimedJob:
    return ClaimedJob(
        tenant=tenant,
        job_id="job",
        send_no=1,
        attempt_count=2,
        max_retries=3,
        timeout_seconds=30,
        kind=Kind.EVENT,
        code="shop:orders:order:created",
        target_url="http://127.0.0.1:9/secret-path",
        data_only=True,
        created_at=0.0,
        subscription_id=subscription_id,
    )


async def is_active(pool: Pool, tenant: int) -> bool:
    found = await subscriptions.read(pool, tenant, "ill")
    return found is not None and found.status is SubscriptionStatus.ACTIVE


async def test_one_that_only_fails_is_paused_and_told_of(database: str, pool: Pool) -> None:
    tenant = await keys.create_tenant(pool, "own")
    ill = subscription(tenant, "ill")
    told = subscription(tenant, "told", bindings=(Binding(SUBSCRIPTION_DISABLED),))
    for one in (ill, told):
        await subscriptions.create(pool, one, b"secret" * 6)
    config = Config(dsn=database, disable_after=PATIENCE)
    clock = DatabaseClock(time.monotonic, time.time)
    async with PoolServices(config, pool, clock, NoPools(config)) as services:
        running = asyncio.create_task(services.run_forever())
        for _ in range(MIN_FAILURES):
            services.job_finished(delivery(tenant, ill.subscription_id), FAILED, BAD)
        async with asyncio.timeout(20):
            while (
                await subscriptions.read(pool, tenant, "ill")
            ).status is SubscriptionStatus.ACTIVE:  # type: ignore[union-attr]
                await asyncio.sleep(PATIENCE)
                services.job_finished(delivery(tenant, ill.subscription_id), FAILED, BAD)
            rows: list[Any] = []
            while len(rows) < 2:
                await asyncio.sleep(0.1)
                rows = await warnings.page(pool, tenant, WarningFilter(), None, 10)
            while not await pool.fetchval("select status = 'PENDING' from dispatch_jobs"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        running.cancel()
    assert {row.category for row in rows} == {"PROCESSING", "CONFIGURATION"}
    assert not any("secret-path" in row.message for row in rows)
    stored = await pool.fetch("select type, tenant_id from events")
    assert [tuple(row) for row in stored] == [(SUBSCRIPTION_DISABLED, tenant)]
    job = await pool.fetchrow("select subscription_id, tenant_id from dispatch_jobs")
    assert job is not None
    assert tuple(job) == (told.subscription_id, tenant)


async def test_what_is_paused_already_is_not_told_of(database: str, pool: Pool) -> None:
    tenant = await keys.create_tenant(pool, "own")
    await subscriptions.create(pool, subscription(tenant, "ill"), b"secret" * 6)
    await subscriptions.mark_failing(pool, [(tenant, "sub_ill")])
    config = Config(dsn=database)
    clock = DatabaseClock(time.monotonic, time.time)
    async with PoolServices(config, pool, clock, NoPools(config)) as services:
        await subscriptions.pause(pool, tenant, "ill")
        await services._disable((tenant, "sub_ill"), "it fails", None)
        assert await pool.fetchval("select count(*) from events") == 0
        resumed = await subscriptions.resume(pool, tenant, "ill")
        assert isinstance(resumed, Subscription)
        await subscriptions.mark_failing(pool, [(tenant, "sub_ill")])
        await services._disable((tenant, "sub_ill"), "410", resumed.version - 1)
        assert await is_active(pool, tenant)
        await services._disable((tenant, "sub_ill"), "410", resumed.version)
        assert not await is_active(pool, tenant)
    told = await pool.fetch("select convert_from(data, 'UTF8') as data from events")
    assert ["410" in row["data"] for row in told] == [True]
