"""Connections that are shared, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from storage.pool import Pool, PoolOptions, open_pool


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test", max_size=1))
    yield opened
    await opened.close()


async def test_whoever_breaks_off_leaves_no_transaction_behind(pool: Pool) -> None:
    async def write(begun: asyncio.Event) -> None:
        async with pool.acquire() as conn, conn.transaction():
            await conn.execute("insert into tenants (slug) values ('half')")
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    writing = asyncio.create_task(write(begun))
    await begun.wait()
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert await pool.fetchval("select count(*) from tenants where slug = 'half'") == 0


async def test_a_transaction_that_nobody_ends_is_rolled_back(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await conn.execute("begin; insert into tenants (slug) values ('open')")
    async with pool.acquire() as conn:
        assert not conn.is_in_transaction()
        assert await conn.fetchval("select count(*) from tenants where slug = 'open'") == 0


async def test_a_query_is_one_round_trip(pool: Pool) -> None:
    async with pool.acquire() as conn:
        seen: list[str] = []
        conn.add_query_logger(lambda record: seen.append(record.query))
    assert await pool.fetchval("select 1") == 1
    assert seen == ["select 1"]
