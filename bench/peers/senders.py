"""Deliveries as one would write them: bare loops that keep nothing, and a plain consumer.

The loops send the same bodies with as many requests at once as our pool has places, each with an
id and a signature, from a process of their own with uvloop. The consumer takes one row, sends it,
and marks it done, then the next.
Run as `python -m bench.peers.senders KIND URL COUNT PLACES [DSN]`.
"""

import asyncio
import base64
import hashlib
import hmac
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from importlib.util import find_spec
from itertools import cycle
from typing import TypeAlias

import aiohttp
import asyncpg
import httpx
import orjson
import uvloop

from bench.harness import Measure

SECRET = b"0123456789abcdef0123456789abcdef"
TIMEOUT = 30.0
FEW = 8  # connections of one httpx client
Post: TypeAlias = Callable[[bytes, dict[str, str]], Awaitable[int]]

TABLE = """
create table if not exists plain_jobs (
    id bigint generated always as identity primary key,
    status text not null default 'queued', body bytea not null, done_at timestamptz);
create index if not exists plain_jobs_queued on plain_jobs (id) where status = 'queued';
truncate plain_jobs"""
FILL = "insert into plain_jobs (body) select * from unnest($1::bytea[])"
TAKE = """
update plain_jobs set status = 'sending'
 where id = (select id from plain_jobs where status = 'queued'
              order by id limit 1 for update skip locked)
returning id, body"""
DONE = "update plain_jobs set status = 'done', done_at = now() where id = $1"


def body_of(number: int, **more: object) -> dict[str, object]:
    """What is delivered, about as much as an order."""
    order = {"orderId": f"order-{number}", "amount": 99.5, "currency": "EUR", "items": [1, 2, 3]}
    return {**order, "customer": {"id": f"c-{number % 997}", "tier": "gold"}, **more}


def marked(number: int, mark: str, **more: object) -> bytes:
    """A body that the receiver can tell from others."""
    return orjson.dumps({**body_of(number, **more), "mark": f"{mark}-{number}"})


def signed(number: int, body: bytes) -> dict[str, str]:
    """The headers that a receiver is owed."""
    identity, now = f"msg_{number}", str(int(time.time()))
    text = f"{identity}.{now}.".encode() + body
    signature = base64.b64encode(hmac.digest(SECRET, text, hashlib.sha256)).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": identity,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{signature}",
    }


async def send_by(kind: str, url: str, count: int, places: int, dsn: str = "") -> Measure:
    """Run one of them; how fast it was, and at which cost."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.peers.senders",
        *(kind, url, str(count), str(places), dsn),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, f"{kind} failed"
    seconds, cpu = orjson.loads(out)
    return Measure(count, seconds, cpu)


async def _aiohttp(url: str, places: int, work: Callable[[Post], Awaitable[None]]) -> None:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    connector = aiohttp.TCPConnector(limit=places)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def post(body: bytes, headers: dict[str, str]) -> int:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
                return response.status

        await work(post)


async def _httpx(url: str, places: int, work: Callable[[Post], Awaitable[None]]) -> None:
    """As it is fastest: for each call it looks through all connections of its client, so there are
    many clients with few of them; and it is told at once that there is no sniffio.
    """
    if find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]  # the way Python says: not there
    limits = httpx.Limits(max_connections=FEW, max_keepalive_connections=FEW)
    async with AsyncExitStack() as stack:
        clients = cycle(
            [
                await stack.enter_async_context(
                    httpx.AsyncClient(limits=limits, timeout=TIMEOUT, trust_env=False)
                )
                for _ in range(places // FEW)
            ]
        )

        async def post(body: bytes, headers: dict[str, str]) -> int:
            return (await next(clients).post(url, content=body, headers=headers)).status_code

        await work(post)


async def _loop(post: Post, count: int, places: int) -> None:
    numbers: Iterator[int] = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            body = marked(number, "loop")
            assert await post(body, signed(number, body)) == 200

    await asyncio.gather(*(worker() for _ in range(places)))


async def _consume(post: Post, dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        while (row := await conn.fetchrow(TAKE)) is not None:
            assert await post(row["body"], signed(row["id"], row["body"])) == 200
            await conn.execute(DONE, row["id"])
    finally:
        await conn.close()


async def main() -> None:
    """Send everything; tell how long it took."""
    kind, url, count, places = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    client = _httpx if kind == "httpx" else _aiohttp
    began = time.monotonic()
    if kind == "plain":
        await client(url, places, lambda post: _consume(post, sys.argv[5]))
    else:
        await client(url, places, lambda post: _loop(post, count, places))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(orjson.dumps([time.monotonic() - began, usage.ru_utime + usage.ru_stime]).decode())


if __name__ == "__main__":
    uvloop.run(main())
