"""Is it serving? Asked from outside, by what callers need: writes, deadlines, and a report."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from tools.chaos.scenario import LONG_TIMEOUT

AnswerT = TypeVar("AnswerT")
_PAUSE = 0.05
_TIMEOUT = 15.0  # longer than the product's own: while it tries again for us, it is not serving
_SHORT_TIMEOUT = 0.1
_FIRED_WITHIN = 3  # seconds


async def wait_for_writes(client: Client, count: int) -> None:
    """Return once `count` new correlations were registered: enough to meet every shard."""
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(retry_until_true(lambda: _register(client, LONG_TIMEOUT)))


async def wait_for_deadlines(client: Client) -> None:
    """Return once a deadline has fired that was set now: by a right clock, if all is well."""
    ids = await retry_until_true(lambda: _register(client, _SHORT_TIMEOUT))

    async def fires() -> bool:
        wait = await client.get(wait_path(*ids), {"wait": _FIRED_WITHIN})
        return bool(wait["status"] == "timeout")

    await retry_until_true(fires)


async def wait_for_actors(client: Client, gone: Collection[int]) -> None:
    """Return once the supervisor tells that every actor is up, and none in a process of these."""

    async def look() -> bool:
        report = await client.get("/api/status")
        actors = report["actors"]
        are_up = all(actor["alive"] and actor.get("pid") not in gone for actor in actors)
        return len(actors) > 1 and are_up

    await retry_until_true(look)


async def count_shards(client: Client) -> int:
    """How many shards the instance has."""
    report = await retry_until_true(lambda: client.get("/api/status"))
    return sum(actor.get("kind") == "shard" for actor in report["actors"])


async def retry_until_true(call: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    """Ask until there is an answer, and not just a no."""
    while True:
        with contextlib.suppress(TimeoutError, UnreachableError, ProblemResponseError):
            async with asyncio.timeout(_TIMEOUT):
                answer = await call()
            if answer:
                return answer
        await asyncio.sleep(_PAUSE)


async def register_once(client: Client) -> None:
    """Register a new correlation; raises if it is refused."""
    await _register(client, LONG_TIMEOUT)


async def _register(client: Client, timeout: float) -> tuple[str, str]:
    ids = f"probe-{secrets.token_hex(8)}", secrets.token_hex(8)
    data = {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": timeout}
    body = {"executionId": ids[0], "correlationId": ids[1], "nodeId": "wait", "data": data}
    await client.post("/api/wait-states", body)
    return ids
