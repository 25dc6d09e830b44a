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

# What a lost or refused connection looks like to a person who runs a command. What is worth another
# try is more than this: storage/postgres/error_class.py.
CONNECTION_ERRORS = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What asyncpg says when a query meets the news that its server process was ended.
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
# What a malformed address, and a refused statement, look like to the same person.
INVALID_DSN_ERRORS = (asyncpg.ClientConfigurationError, ValueError)


# Readers with optional filters plan with the values at hand. Writers plan once, and always go by
# key: a plan made while a table is new and empty would read it whole, and stay until Postgres has
# counted its rows. Ten thousand waits later each flush would still read all of them.
#
# The settings are not enough. Of a table that Postgres knows to be empty, as after a quiet night,
# an index read from end to end costs as little as a look-up by key, and may be preferred. It must
# be no choice, so the SQL of writers joins a table that grows in one of these ways:
# - `t.key = any(array[asked.key])`, for the first column of an index: still a look-up by key, but
#   nothing that a merge join could do, for whose sake Postgres thinks of reading indexes in order.
# - `exists (… offset 0)`: no join, but asked for each row. Also where all that is asked for is in
#   an index, or where the index is partial: such a one may be read whole without any merge join.
# - `t.key = any(array(select …))`: first the keys, then the rows.
# And no index of such a table has a whole key behind other columns: PostgreSQL 18 would look the
# key up there, once for each value of these columns, if it knows of one only.
# tests/contract/postgres/test_writer_plans.py looks at every statement.
_READER = {"plan_cache_mode": "force_custom_plan"}
_WRITER = {
    # Left to itself, Postgres plans every small flush anew, which costs more than to carry it out.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}


_SESSION_ATTRS = "target_session_attrs"
_ON = "on"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How one process connects to Postgres."""

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
        # Statements are few and fixed: never prepare them anew.
        "max_cached_statement_lifetime": 0,
        "server_settings": {
            "application_name": f"muster {options.name}",
            "statement_timeout": str(int(options.statement_timeout * 1000)),
            # Whoever is frozen in the middle of a transaction must not hold its locks for long.
            "idle_in_transaction_session_timeout": "10000",
            "synchronous_commit": "on",
            "jit": "off",
            "TimeZone": "UTC",
            **(_READER if options.plan_each_time else _WRITER),
        },
    }


def _writable(dsn: str) -> dict[str, str]:
    """Ask for a writable server, unless the DSN asks for another kind itself.

    Of several hosts the first such is taken. After a failover a name may lead to the demoted server
    for a while: a connection to it would be healthy, and of no use for as long as it lasts.
    """
    asked = parse_qs(urlsplit(dsn).query)
    return {} if _SESSION_ATTRS in asked else {_SESSION_ATTRS: "read-write"}


async def open_pool(options: PoolOptions, on_connect: OnConnect | None = None) -> Pool:
    """Open a pool that connects lazily, so that a process can start while Postgres is down.

    Each connection is checked: a server whose schema is not ours is as good as away. `on_connect`
    gets each before it is used.
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
    """Skip the reset of a pooled connection: nobody changes its session.

    That would be one more round trip for each query. A transaction that was left open is rolled
    back before this is called. What a server says of itself comes by itself: one that has become
    read-only is not used again.
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
