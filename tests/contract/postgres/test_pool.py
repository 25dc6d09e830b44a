"""Connections that are shared, on a real Postgres."""

import asyncio
import time
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlencode, urlsplit

import asyncpg
import pytest

from host.postgres.embedded import EmbeddedServer
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.migrate import migrate
from storage.postgres.pool import Connection, Pool, PoolOptions, connect_options, open_pool
from tests.support.postgres import BareServer, execute


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


async def _connect(dsn: str) -> Connection:
    """As everybody does, without a look at the schema."""
    conn: Connection = await asyncpg.connect(**connect_options(PoolOptions(dsn=dsn, name="test")))
    return conn


async def test_of_several_hosts_the_writable_one_is_taken(
    postgres_server: EmbeddedServer, bare_server: BareServer
) -> None:
    """A demoted server answers first; the next one takes writes."""
    demoted = urlsplit(bare_server.dsn)
    name = demoted.path.lstrip("/")
    await execute(bare_server.dsn, f"alter database {name} set default_transaction_read_only = on")
    asked = [parse_qs(urlsplit(dsn).query) for dsn in (bare_server.dsn, postgres_server.dsn)]
    both = {part: ",".join(one[part][0] for one in asked) for part in asked[0]}
    dsn = demoted._replace(query=urlencode(both)).geturl()
    conn = await _connect(dsn)
    assert await conn.fetchval("show transaction_read_only") == "off"
    await conn.close()
    with pytest.raises(asyncpg.TargetServerAttributeNotMatched):
        await _connect(bare_server.dsn)
    anyhow = f"{bare_server.dsn}&target_session_attrs=any"
    conn = await _connect(anyhow)
    assert await conn.fetchval("show transaction_read_only") == "on"
    await conn.close()


async def _write_until_refused(pool: Pool) -> None:
    for _ in range(100):
        await pool.execute("create table t (a integer); drop table t")
        await asyncio.sleep(0.05)


async def test_a_pooled_connection_whose_server_became_read_only_is_not_used_again(
    bare_server: BareServer,
) -> None:
    await migrate(bare_server.dsn)
    pool = await open_pool(PoolOptions(dsn=bare_server.dsn, name="test", max_size=1))
    before = await pool.fetchval("select pg_backend_pid()")
    admin = bare_server.dsn.replace("//muster@", "//postgres@")
    await execute(admin, "alter system set default_transaction_read_only = on")
    await execute(admin, "select pg_reload_conf()")
    # The server tells it with the next answer.
    with pytest.raises(SERVER_ERRORS):
        await _write_until_refused(pool)
    with pytest.raises(asyncpg.TargetServerAttributeNotMatched):
        await pool.execute("create table t (a integer)")
    conn = await asyncpg.connect(admin, server_settings={"default_transaction_read_only": "off"})
    await conn.execute("alter system reset default_transaction_read_only")
    await conn.execute("select pg_reload_conf()")
    await conn.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            after = await pool.fetchval("select pg_backend_pid()")
            break
        except SERVER_ERRORS:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
    await pool.execute("create table t (a integer)")
    assert after != before
    await pool.close()
