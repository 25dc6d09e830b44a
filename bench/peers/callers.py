"""What one call costs its sender in CPU, by a bare aiohttp session and by ours.

The same body to a receiver on loopback, 64 at once, with uvloop, in turns; then the same as whole
deliveries, headers and signature included.
Run as `python -m bench.peers.callers [COUNT]`.
"""

import asyncio
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import aiohttp
import uvloop

from bench.peers.receiver import receiver_service
from bench.peers.senders import marked, signed
from core.dispatch.claim import ClaimedJob, DeliveryProfile
from core.dispatch.job import Kind
from core.shared.call_policy import LOOPBACK, CallPolicy
from handlers.http.client import HttpClient, HttpRequest, HttpResponse
from handlers.http.webhooks import MAX_ANSWER_BYTES, Webhooks

PLACES = 64
ROUNDS = 5
TIMEOUT = 30.0
LARGEST = 1_000_000
Call: TypeAlias = Callable[[], Awaitable[None]]

BODY = marked(1, "calls")
HEADERS = signed(1, BODY)


def bare(session: aiohttp.ClientSession, url: str) -> Call:
    async def call() -> None:
        async with session.post(url, data=BODY, headers=HEADERS) as response:
            await response.read()
            assert response.status == 200

    return call


def through(caller: HttpClient, url: str) -> Call:
    async def call() -> None:
        answer = await caller.call(
            HttpRequest(
                url=url,
                method="POST",
                headers=HEADERS,
                body=BODY,
                connect_timeout=TIMEOUT,
                read_timeout=TIMEOUT,
                total=True,
                keep=MAX_ANSWER_BYTES,
            )
        )
        assert isinstance(answer, HttpResponse)

    return call


def delivered(caller: HttpClient, url: str) -> Call:
    webhooks, profile = Webhooks(caller, time.time), DeliveryProfile(secrets=(b"s" * 32,))
    job = ClaimedJob(
        tenant=1,
        job_id="0JOB000000001",
        send_no=1,
        attempt_count=0,
        max_retries=3,
        timeout_seconds=30,
        kind=Kind.TASK,
        code="bench",
        target_url=url,
        data_only=True,
        created_at=time.time(),
        payload=BODY,
        content_type="application/json",
    )

    async def call() -> None:
        assert (await webhooks.send(job, profile)).code == 200

    return call


async def cost(call: Call, count: int) -> float:
    """Microseconds of CPU for each of so many."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await call()

    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(work() for _ in range(PLACES)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent / count * 1e6


async def main() -> None:
    """Print a line for each way out."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    allowed = CallPolicy(LOOPBACK)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with (
        receiver_service(0) as receiver,
        aiohttp.ClientSession(timeout=timeout) as session,
        HttpClient(allowed, LARGEST) as client,
    ):
        url = receiver.url
        calls = {
            "aiohttp": bare(session, url),
            "HttpClient": through(client, url),
            "delivery": delivered(client, url),
        }
        costs: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(ROUNDS + 1):
            for name, call in calls.items():
                found = await cost(call, count)
                if number:  # the first only opens connections
                    costs[name].append(found)
                await receiver.told()
    for name, found in costs.items():
        low, high = min(found), max(found)
        print(f"{name:22}{statistics.median(found):7.1f} µs ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    uvloop.run(main())
