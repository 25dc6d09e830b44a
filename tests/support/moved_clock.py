"""A database that tells another time than its machine, as one on another machine may."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import asyncpg

Move: TypeAlias = Callable[[float], Awaitable[None]]


@contextlib.asynccontextmanager
async def moved_clock(dsn: str) -> AsyncIterator[Move]:
    """A way to move what this database says the time is."""

    async def move(seconds: float) -> None:
        await _execute(
            dsn,
            "create or replace function public.clock_timestamp() returns timestamptz language sql"
            f" as $$ select pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$",
        )

    # Those who connect from now on look in `public` first.
    name = urlsplit(dsn).path.strip("/")
    await _execute(dsn, f"alter database {name} set search_path = public, pg_catalog")
    await move(0.0)
    yield move


async def disconnect_all(dsn: str) -> None:
    """End every connection to this database, as a failover does."""
    await _execute(
        dsn,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()",
    )


async def _execute(dsn: str, statement: str) -> None:
    conn = await asyncpg.connect(dsn, server_settings={"default_transaction_read_only": "off"})
    try:
        await conn.execute(statement)
    finally:
        await conn.close()
