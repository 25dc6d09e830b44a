"""`muster migrate` beside running traffic, beside code that is older or newer, and when killed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from core.waits.messages import RegisterReply
from storage.postgres.migrate import MigrationError, MigrationOptions, migrate, pending
from storage.postgres.migration_files import Migration, known
from storage.postgres.pool import PoolOptions, open_connection, open_pool
from storage.postgres.schema_check import SchemaMismatchError
from tests.support.shards import address, ask, register, running_shard

ALTER = Migration("9000_more", "alter table execution_wait_states add column more int;")
INDEX = Migration(
    "9001_index",
    "-- transaction: none\n"
    "create index concurrently if not exists more_index on execution_wait_states (node_id);\n",
)


class Progress(list[str]):
    """What a migration says; a test can wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._said = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.append(line)
        self._said.set()

    async def until(self, words: str, times: int = 1) -> None:
        async with asyncio.timeout(30):
            while sum(words in line for line in self) < times:
                self._said.clear()
                await self._said.wait()


@contextlib.asynccontextmanager
async def reader(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody who read the table, and has not ended the transaction: a dump, a report."""
    conn = await asyncpg.connect(dsn, server_settings={"application_name": "a long report"})
    transaction = conn.transaction(isolation="repeatable_read")
    await transaction.start()
    await conn.fetch("select count(*) from execution_wait_states")
    yield conn
    await transaction.rollback()
    await conn.close()


async def has_column(dsn: str) -> bool:
    conn = await asyncpg.connect(dsn)
    try:
        return bool(
            await conn.fetchval(
                "select 1 from information_schema.columns"
                " where table_name = 'execution_wait_states' and column_name = 'more'"
            )
        )
    finally:
        await conn.close()


async def test_writers_go_on_while_a_migration_waits_for_a_long_reader(database: str) -> None:
    progress = Progress()
    options = MigrationOptions(lock_timeout=0.2, longest_pause=0.2, progress=progress)
    async with running_shard(database) as shard:
        async with reader(database):
            running = asyncio.create_task(migrate(database, options, [*known(), ALTER]))
            for times in range(1, 6):
                await progress.until("waits for a lock", times)
                # Whoever came meanwhile stood behind the migration, and is let pass.
                async with asyncio.timeout(10):
                    assert isinstance(await ask(shard, register(address())), RegisterReply)
            assert not running.done()
            assert not await has_column(database)
        assert await running == ["9000_more"]
        assert await has_column(database)
        assert isinstance(await ask(shard, register(address())), RegisterReply)
    assert any("a long report" in line for line in progress)


async def test_a_migration_that_waits_for_too_long_says_for_whom(database: str) -> None:
    options = MigrationOptions(lock_timeout=0.05, longest_pause=0.05, give_up_after=0.5)
    async with reader(database):
        with pytest.raises(MigrationError, match=r"gave up.*9000_more waits.*a long report"):
            await migrate(database, options, [*known(), ALTER])
    assert await pending(database, [*known(), ALTER]) == ["9000_more"]


async def test_an_index_whose_building_was_killed_is_built_again(database: str) -> None:
    progress = Progress()
    both = [*known(), INDEX]
    conn = await asyncpg.connect(database)
    async with reader(database):
        running = asyncio.create_task(migrate(database, MigrationOptions(progress=progress), both))
        await progress.until("building more_index")
        async with asyncio.timeout(30):
            await until_there(conn, "more_index")  # and waits for the reader
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where query like 'create index concurrently%more_index%' and pid <> pg_backend_pid()"
        )
        with contextlib.suppress(asyncpg.PostgresError, ConnectionError):
            await running
    assert await pending(database, both) == ["9001_index"]
    progress.clear()
    assert await migrate(database, MigrationOptions(progress=progress), both) == ["9001_index"]
    assert any("removing more_index" in line for line in progress)
    valid = "select indisvalid from pg_index where indexrelid = 'more_index'::regclass"
    assert await conn.fetchval(valid)
    await conn.close()


async def until_there(conn: asyncpg.Connection, index: str) -> None:
    while True:
        if await conn.fetchval("select to_regclass($1) is not null", index):
            return
        await asyncio.sleep(0.02)


async def test_two_who_migrate_at_once_do_it_once(database: str) -> None:
    options = MigrationOptions(longest_pause=0.1)
    applied = await asyncio.gather(*(migrate(database, options, [*known(), ALTER]) for _ in "ab"))
    assert sorted(applied) == [[], ["9000_more"]]


async def test_code_waits_for_its_schema_and_then_works(database: str) -> None:
    """It does not fail once and for all: each new connection looks again."""
    conn = await asyncpg.connect(database)
    newest = known()[-1].name
    await conn.execute("delete from schema_migrations where name = $1", newest)
    words = rf"the database is at \d{{4}}, this version needs {newest[:4]}: run `muster migrate`"
    options = PoolOptions(dsn=database, name="test")
    pool = await open_pool(options)
    with pytest.raises(SchemaMismatchError, match=words):
        await pool.fetchval("select 1")
    with pytest.raises(SchemaMismatchError, match=words):
        await open_connection(options)
    await conn.execute("insert into schema_migrations (name) values ($1)", newest)
    assert await pool.fetchval("select 1") == 1
    await (await open_connection(options)).close()
    pool.terminate()
    await conn.close()


async def test_code_works_behind_migrations_of_the_next_release_only(database: str) -> None:
    newest = known()[-1].name[:4]
    nearby = Migration("9000_next", f"-- compatible-from: {newest}\nselect 1;")
    await migrate(database, migrations=[*known(), nearby])
    options = PoolOptions(dsn=database, name="test")
    await (await open_connection(options)).close()
    assert await migrate(database) == []  # and migrates nothing, as it knows nothing newer
    distant = Migration("9001_after", "-- compatible-from: 9000\nselect 1;")
    await migrate(database, migrations=[*known(), nearby, distant])
    with pytest.raises(SchemaMismatchError, match="9001, which is too new"):
        await open_connection(options)
    with pytest.raises(MigrationError, match="9001, which is too new"):
        await migrate(database)


async def test_a_database_from_before_there_was_a_mark_is_understood(database: str) -> None:
    conn = await asyncpg.connect(database)
    await conn.execute("alter table schema_migrations drop column compatible_from")
    options = PoolOptions(dsn=database, name="test")
    await (await open_connection(options)).close()
    assert await migrate(database) == []
    await conn.execute("drop table schema_migrations")
    with pytest.raises(SchemaMismatchError, match="has no schema"):
        await open_connection(options)
    await conn.close()
