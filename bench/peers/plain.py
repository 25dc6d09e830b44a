"""The row-lock design as a web service of its own: uvicorn, httptools, uvloop, an asyncpg pool.

One transaction for each callback: lock the row, change it, write the log. It checks a key and
needs both ids, as ours does, and nothing else stands in its way: no proxy, no framework.
Run as `python -m bench.peers.plain PORT WORKERS` with BENCH_DSN and BENCH_KEY.
"""

import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import orjson
import psutil

from bench.peers import asgi
from bench.peers.process import serving
from bench.peers.rowlock import LOCK, SCHEMA
from bench.stage import Stage
from bench.wire import Door
from host.ports import free_port

CONNECTIONS = 16
LOG_SCHEMA = """
create table wait_log (
    wait_id text not null, at timestamptz not null default now(), event text not null, body jsonb
);
create index on wait_log (wait_id);
"""
FILL = """
insert into wait_states (id, execution_id, node_id, correlation_id, expires_at)
select e || ':' || c, e, 'n', c, now() + interval '1 hour'
  from unnest($1::text[], $2::text[]) as t(e, c)
"""
RECEIVE = """
update wait_states
   set api_response_data = $3, received_events = received_events || '"api_response"',
       version = version + 1, status = 'completed', resumed_at = now()
 where execution_id = $1 and correlation_id = $2
"""
LOG = "insert into wait_log (wait_id, event, body) values ($1, 'api_response', $2)"


@asynccontextmanager
async def plain_service(stage: Stage, workers: int) -> AsyncIterator[tuple[Door, psutil.Process]]:
    """The service in processes of its own, on a database of its own."""
    dsn = await stage.empty_database()
    conn = await asyncpg.connect(dsn)
    await conn.execute(SCHEMA + LOG_SCHEMA)
    await conn.close()
    door = Door(free_port(), uuid.uuid4().hex, dsn)
    variables = {"BENCH_DSN": dsn, "BENCH_KEY": door.key}
    try:
        async with serving("bench.peers.plain", door.port, str(workers), **variables) as process:
            yield door, process
    finally:
        await stage.drop(dsn)


class Service(asgi.Service):
    """One transaction for each request."""

    _pool: Any

    async def open(self) -> None:
        """Connect."""
        share = max(1, CONNECTIONS // int(os.environ["BENCH_WORKERS"]))
        self._pool = await asyncpg.create_pool(
            os.environ["BENCH_DSN"], min_size=share, max_size=share, reset=_keep
        )

    async def close(self) -> None:
        """Disconnect."""
        await self._pool.close()

    async def take(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, dict[str, str]]:
        """Lock, change, log."""
        execution = headers[b"x-execution-id"].decode()
        correlation = headers[b"x-correlation-id"].decode()
        orjson.loads(body)
        async with self._pool.acquire() as conn, conn.transaction():
            if await conn.fetchval(LOCK, execution, correlation) is None:
                return 404, {"verdict": "unmatched"}
            await conn.execute(RECEIVE, execution, correlation, body.decode())
            await conn.execute(LOG, f"{execution}:{correlation}", body.decode())
        ids = {"executionId": execution, "correlationId": correlation}
        return 200, {"verdict": "matched", "status": "completed", **ids}


async def _keep(_conn: Any) -> None:
    """Nothing here changes a session, so nothing is reset: a round trip less."""


def main() -> None:
    """Serve until told to stop."""
    port, workers = int(sys.argv[1]), int(sys.argv[2])
    os.environ["BENCH_WORKERS"] = str(workers)
    asgi.run("bench.peers.plain:Service", port, workers)


if __name__ == "__main__":
    main()
