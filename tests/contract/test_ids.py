"""Processes that make ids draw different numbers from Postgres."""

import asyncio
import time

import asyncpg
import pytest

from actors.ids import Ids, open_id_maker
from core.errors import UnavailableError
from core.tsid import MAKERS, IdMaker, made_at
from storage.clock import DatabaseClock
from storage.ids import draw_maker
from storage.pool import PoolOptions, open_pool


async def test_numbers_differ_and_go_round(database: str) -> None:
    conn = await asyncpg.connect(database)
    try:
        drawn = [await draw_maker(conn) for _ in range(MAKERS)]
        assert sorted(drawn) == list(range(MAKERS))
        assert await draw_maker(conn) == drawn[0]
    finally:
        await conn.close()


async def test_makers_of_one_database_never_make_the_same(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    try:
        stopped = DatabaseClock(lambda: 0.0, time.time)
        await stopped.sync(pool)
        makers = [await open_id_maker(pool, stopped) for _ in range(3)]
        made = {make() for _ in range(100) for make in makers}
        assert len(made) == 300
        assert {made_at(one) for one in made} == {int(stopped.now() * 1000) / 1000}
    finally:
        pool.terminate()


async def test_a_database_without_tables_is_waited_for(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    await pool.execute("alter sequence id_makers rename to not_yet")
    opened = asyncio.Event()

    async def open_maker() -> IdMaker:
        maker = await open_id_maker(pool, DatabaseClock(time.monotonic, time.time))
        opened.set()
        return maker

    ids = Ids(open_maker)
    try:
        await ids.start()
        with pytest.raises(UnavailableError):
            ids()
        await pool.execute("alter sequence not_yet rename to id_makers")
        await asyncio.wait_for(opened.wait(), 30)
        await asyncio.sleep(0)
        assert ids()
    finally:
        await ids.close()
        pool.terminate()
