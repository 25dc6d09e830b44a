"""Connections to Postgres, set up the same way everywhere."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import asyncpg

from storage.postgres.schema_check import check_schema

if TYPE_CHECKING:
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = (
        asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    )
else:  # asyncpg's classes take no parameters at run time
    Pool = asyncpg.Pool
    Connection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy

OnConnect: TypeAlias = Callable[[Connection], Awaitable[None]]

# Lost or refused connections, as commands report them. storage/postgres/error_class.py decides what
# is worth a retry.
CONNECTION_ERRORS = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # asyncpg raises this if the server process ends during a query.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DiskFullError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
# A malformed address, and a refused statement.
INVALID_DSN_ERRORS = (asyncpg.ClientConfigurationError, ValueError)


# Readers with optional filters plan with the actual values. Writers plan once and must look rows up
# by key: a plan made while a table is empty would read the whole table, and would stay in use until
# Postgres counts its rows again, ten thousand waits later.
#
# The settings do not suffice. For a table that Postgres believes to be empty, reading a whole index
# costs as little as a look-up by key and may be preferred. So the SQL of writers joins each growing
# table in one of these ways, which rule that out:
# - `t.key = any(array[asked.key])`, for the first column of an index: a look-up by key that a merge
#   join cannot use, and only a merge join would read the index in order.
# - `exists (… offset 0)`: evaluated for each row. Also where an index contains all columns that are
#   read, or is partial: Postgres may read such an index whole without a merge join.
# - `t.key = any(array(select …))`: first the keys, then the rows.
# And no index of such a table contains a whole key behind other columns: PostgreSQL 18 would search
# it once for each value of these columns, if it knows of only one value.
# tests/contract/postgres/test_writer_plans.py checks every statement.
_READER = {"plan_cache_mode": "force_custom_plan"}
_WRITER = {
    # By default Postgres plans every small flush anew, which costs more than running it.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


_SESSION_ATTRS = "target_session_attrs"
_ON = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    dsn: str = field(repr=False)
    name: str
    max_size: int = 4
    statement_timeout: float = 30.0
    plan_each_time: bool = False


def connect_options(options: PoolOptions) -> dict[str, Any]:
    """Return the arguments with which every connection is opened."""
    return {
        "dsn": options.dsn,
        **_writable(options.dsn),
        "timeout": 5.0,
        "command_timeout": options.statement_timeout + 5.0,
        # Statements are few and fixed, so they are prepared once.
        "max_cached_statement_lifetime": 0,
        "server_settings": {
            "application_name": f"muster {options.name}",
            "statement_timeout": str(int(options.statement_timeout * 1000)),
            # A process that freezes within a transaction must not hold its locks for long.
            "idle_in_transaction_session_timeout": "10000",
            "synchronous_commit": "on",
            "jit": "off",
            "TimeZone": "UTC",
            **(_READER if options.plan_each_time else _WRITER),
        },
    }


def _writable(dsn: str) -> dict[str, str]:
    """Ask for a writable server, unless the DSN asks for another kind.

    Of several hosts the first writable one is used. After a failover a name may lead to the demoted
    server for a while; a connection to it would look healthy but reject all writes.
    """
    asked = parse_qs(urlsplit(dsn).query)
    return {} if _SESSION_ATTRS in asked else {_SESSION_ATTRS: "read-write"}


async def open_pool(options: PoolOptions, on_connect: OnConnect | None = None) -> Pool:
    """Open a pool that connects lazily, so that a process can start while Postgres is down.

    Each new connection checks the schema; a mismatch counts as an unavailable server. `on_connect`
    is called with each connection before its first use.
    """

    async def init(conn: Connection) -> None:
        await check_schema(conn)
        if on_connect is not None:
            await on_connect(conn)

    return await asyncpg.create_pool(
        min_size=0,
        max_size=options.max_size,
        reset=_keep,
        init=init,
        **connect_options(options),
    )


async def _keep(conn: Connection) -> None:
    """Skip the reset of a pooled connection, which would cost a round trip for each query.

    No code changes the session. asyncpg rolls an open transaction back before it calls this.
    Postgres reports by itself when it becomes read-only; such a connection is not used again.
    """
    settings = conn.get_settings()
    if _ON in (
        getattr(settings, "default_transaction_read_only", None),
        getattr(settings, "in_hot_standby", None),
    ):
        conn.terminate()


async def open_connection(options: PoolOptions, on_connect: OnConnect | None = None) -> Connection:
    """Open one connection for a writer that flushes all the time."""
    conn: Connection = await asyncpg.connect(**connect_options(options))
    try:
        await check_schema(conn)
        if on_connect is not None:
            await on_connect(conn)
    except BaseException:
        conn.terminate()
        raise
    return conn


async def connect_plain(dsn: str, settings: dict[str, str]) -> Connection:
    """Open a connection with these server settings only, whatever the schema is."""
    conn: Connection = await asyncpg.connect(dsn, server_settings=settings)
    return conn
