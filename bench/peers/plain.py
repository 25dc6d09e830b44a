"""The row-lock design as a web service of its own: uvicorn, httptools, uvloop, an asyncpg pool.

One transaction for each callback: lock the row, change it, write the log. It checks a key and
needs both ids, as ours does, and nothing else stands in its way: no proxy, no framework.
Run as `python -m bench.peers.plain PORT WORKERS` with BENCH_DSN and BENCH_KEY.
"""

import asyncio
import hmac
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import orjson
import psutil
import uvicorn

from bench.peers.rowlock import LOCK, SCHEMA
from bench.stage import Stage
from bench.wire import Door, listening
from cli.host.ports import free_port

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
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.peers.plain",
        str(door.port),
        str(workers),
        env=os.environ | {"BENCH_DSN": dsn, "BENCH_KEY": door.key},
    )
    try:
        await listening(door.port)
        yield door, psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()
        await stage.drop(dsn)


class Service:
    """An ASGI app."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._key = f"Bearer {os.environ['BENCH_KEY']}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle the start, the end, and requests."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, answer = await self._take(dict(scope["headers"]), body)
        content = orjson.dumps(answer)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        share = max(1, CONNECTIONS // int(os.environ["BENCH_WORKERS"]))
        self._pool = await asyncpg.create_pool(
            os.environ["BENCH_DSN"], min_size=share, max_size=share, reset=_keep
        )
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._pool.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _take(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, dict[str, str]]:
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._key):
            return 401, {"verdict": "unknown key"}
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
    uvicorn.run(
        "bench.peers.plain:Service",
        factory=True,
        host="127.0.0.1",
        port=port,
        workers=workers,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="error",
    )


if __name__ == "__main__":
    main()
