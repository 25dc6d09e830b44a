"""What Postgres counts about our tables and its log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

COUNTED = """
select w.n_tup_ins as waits, l.n_tup_ins as lines, w.n_tup_upd as updates,
       w.n_tup_hot_upd as hot_updates, w.n_dead_tup + l.n_dead_tup as dead,
       w.n_live_tup + l.n_live_tup as live,
       pg_total_relation_size(w.relid) + pg_total_relation_size(l.relid) as size,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as wal
  from pg_stat_user_tables w, pg_stat_user_tables l
 where w.relname = 'execution_wait_states' and l.relname = 'wait_state_events'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Rows, updates, bytes; waits and their log lines together where nothing else is said."""

    waits: int
    lines: int
    updates: int
    hot_updates: int
    dead: int
    live: int
    size: int
    wal: float

    @classmethod
    async def read(cls, conn: "asyncpg.Connection") -> "Tables":
        """As of now, but for what backends have not told yet; they do within seconds."""
        row = await conn.fetchrow(COUNTED)
        assert row is not None
        return cls(**dict(row))


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator["asyncpg.Connection"]:
    """A connection for a look."""
    conn = await asyncpg.connect(dsn)
    try:
        yield conn
    finally:
        await conn.close()


async def wal_bytes(dsn: str) -> float:
    """How much the server has ever written to its log."""
    async with connected(dsn) as conn:
        position: float = await conn.fetchval(
            "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"
        )
    return position
