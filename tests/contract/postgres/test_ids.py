"""Processes that make ids lease different numbers from Postgres."""

import asyncio
import time

import asyncpg
import pytest

from core.shared.errors import UnavailableError
from core.shared.tsid import MAKERS, made_at
from services.shared.ids import IdGenerator, IdLeases
from storage.postgres.clock import DatabaseClock
from storage.postgres.id_numbers import lease_maker, release_maker, renew_maker
from storage.postgres.pool import PoolOptions, open_pool


async def test_no_number_is_lent_twice_however_many_start(database: str) -> None:
    conn = await asyncpg.connect(database)
    try:
        drawn = [await lease_maker(conn, f"p{at}") for at in range(MAKERS)]
        assert sorted(number for number in drawn if number is not None) == list(range(MAKERS))
        assert await lease_maker(conn, "one too many") is None
    finally:
        await conn.close()


async def test_a_number_comes_round_when_its_lease_is_over_the_oldest_first(database: str) -> None:
    conn = await asyncpg.connect(database)
    try:
        numbers = [await lease_maker(conn, f"p{at}") for at in range(MAKERS)]
        seventh, third = numbers[7], numbers[3]
        assert seventh is not None
        assert third is not None
        await release_maker(conn, seventh, "p7")
        await release_maker(conn, third, "p3")
        assert await lease_maker(conn, "next") == seventh
        assert not await renew_maker(conn, seventh, "p7")
        assert await renew_maker(conn, seventh, "next")
        assert await renew_maker(conn, third, "p3")  # over, but nobody's else
        assert await lease_maker(conn, "another") is None
    finally:
        await conn.close()


async def test_those_who_ask_at_once_get_different_numbers_or_none(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test", max_size=8))
    try:
        drawn = await asyncio.gather(*(lease_maker(pool, f"p{at}") for at in range(64)))
        lent = [number for number in drawn if number is not None]
        assert len(set(lent)) == len(lent) > 0
    finally:
        pool.terminate()


async def test_makers_of_one_database_never_make_the_same(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    try:
        stopped = DatabaseClock(lambda: 0.0, time.time)
        await stopped.sync(pool)
        makers = [IdGenerator(IdLeases(pool, "test"), stopped.now) for _ in range(3)]
        for maker in makers:
            await maker.start()
        made = {make() for _ in range(100) for make in makers}
        assert len(made) == 300
        assert {made_at(one) for one in made} == {int(stopped.now() * 1000) / 1000}
        for maker in makers:
            await maker.close()
    finally:
        pool.terminate()


async def test_a_database_without_tables_is_waited_for(database: str) -> None:
    pool = await open_pool(PoolOptions(dsn=database, name="test"))
    await pool.execute("alter table id_maker_leases rename to not_yet")
    ids = IdGenerator(IdLeases(pool, "test"), time.time)
    try:
        await ids.start()
        with pytest.raises(UnavailableError):
            ids()
        await pool.execute("alter table not_yet rename to id_maker_leases")
        async with asyncio.timeout(30):
            await until_able(ids)
    finally:
        await ids.close()
        pool.terminate()


async def until_able(ids: IdGenerator) -> str:
    while True:
        try:
            return ids()
        except UnavailableError:
            await asyncio.sleep(0.05)
