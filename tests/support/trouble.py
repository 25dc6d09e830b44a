"""Trouble of a server that says nothing about what is written: read-only, or another schema."""

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg

_WRITABLE = {"default_transaction_read_only": "off"}


@contextlib.asynccontextmanager
async def read_only(dsn: str) -> AsyncIterator[None]:
    """A database that is read-only for all who connect, as a demoted server is.

    Whoever was connected is thrown out when it begins, and nobody when it ends.
    """
    name = urlsplit(dsn).path.lstrip("/")
    conn = await asyncpg.connect(dsn, server_settings=_WRITABLE)
    try:
        await conn.execute(f"alter database {name} set default_transaction_read_only = on")
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        try:
            yield
        finally:
            await conn.execute(f"alter database {name} reset default_transaction_read_only")
    finally:
        await conn.close()


@contextlib.asynccontextmanager
async def renamed(dsn: str, table: str, column: str | None = None) -> AsyncIterator[None]:
    """A table or a column that is called something else for a while, as by another version."""
    what = f"alter table {table} rename" if column is None else f"alter table {table} rename column"
    old, new = (table, f"{table}_gone") if column is None else (column, f"{column}_gone")
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(f"{what} to {new}" if column is None else f"{what} {old} to {new}")
        try:
            yield
        finally:
            await conn.execute(
                f"alter table {new} rename to {old}" if column is None else f"{what} {new} to {old}"
            )
    finally:
        await conn.close()
