"""A database of the test's own: connections to it, and tenants in it."""

from collections.abc import AsyncIterator

import pytest

from storage import access
from storage.pool import Pool, PoolOptions, open_pool


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", max_size=8))
    yield opened
    await opened.close()


@pytest.fixture
async def tenant(pool: Pool) -> int:
    return await access.create_tenant(pool, "own")


@pytest.fixture
async def other(pool: Pool) -> int:
    return await access.create_tenant(pool, "other")
