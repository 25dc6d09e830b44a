"""A database of the test's own: connections as actors and as the API have them, tenants, jobs."""

from collections.abc import AsyncIterator

import pytest

from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.support.dispatch import DEFAULT_POOL, JobFactory


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", max_size=8))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await keys.create_tenant(pool, "own")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await keys.create_tenant(pool, "other")


@pytest.fixture
async def api_pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", plan_each_time=True))
    yield opened
    await opened.close()


@pytest.fixture
async def jobs(api_pool: Pool) -> JobFactory:
    return JobFactory(api_pool, await keys.create_tenant(api_pool, "acme"), DEFAULT_POOL)


@pytest.fixture
async def others(api_pool: Pool) -> JobFactory:
    return JobFactory(api_pool, await keys.create_tenant(api_pool, "other"), DEFAULT_POOL)
