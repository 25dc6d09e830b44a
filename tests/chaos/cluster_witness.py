"""A witness inside Postgres: who wrote state, over which connection, and how many rows it took.

The product cannot be asked what a shard did that Ray has given up, and it should not be believed
either. Triggers see every statement that wants to write state, also one that changes no row:
a flush always carries something, so a flush without rows is a write that was refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import asyncpg
import psutil

# In a schema of its own, so that the product's migrations and queries never meet it.
_SETUP = """
create schema witness;
create table witness.statements (
    number bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    port integer not null,
    kind text not null,
    keys bytea[] not null
);
create function witness.note() returns trigger language plpgsql as $$
begin
    insert into witness.statements (port, kind, keys)
    values (inet_client_port(), tg_op,
            coalesce((select array_agg(wait_key) from changed), '{}'));
    return null;
end $$;
create trigger witness_insert after insert on execution_wait_states
    referencing new table as changed for each statement execute function witness.note();
create trigger witness_update after update on execution_wait_states
    referencing new table as changed for each statement execute function witness.note();
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that wanted to write state; `keys` are the rows that took it."""

    port: int
    kind: str
    keys: tuple[bytes, ...]


class Witness:
    """Needs a database that is reached over TCP: a connection's port tells whose it is."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @classmethod
    async def install(cls, dsn: str) -> "Witness":
        conn = await asyncpg.connect(dsn)
        await conn.execute(_SETUP)
        return cls(conn)

    async def mark(self) -> int:
        """Everything after this number happens later."""
        number: int = await self._conn.fetchval(
            "select coalesce(max(number), 0) from witness.statements"
        )
        return number

    async def since(self, mark: int) -> list[Statement]:
        """What was tried after the mark."""
        rows = await self._conn.fetch(
            "select port, kind, keys from witness.statements where number > $1", mark
        )
        return [Statement(row["port"], row["kind"], tuple(row["keys"])) for row in rows]

    async def close(self) -> None:
        await self._conn.close()


def ports_of(pids: Iterable[int], server_port: int) -> set[int]:
    """Over which ports these processes are connected to Postgres, running or stopped."""
    return {
        connection.laddr.port
        for pid in pids
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.raddr and connection.raddr.port == server_port  # type: ignore[redundant-expr]  # empty for a listener
    }
