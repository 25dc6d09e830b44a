"""Is it serving? Asked from outside, by what callers need: writes, deadlines, and a report."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from cli.shell.client import Client, UnreachableError, wait_path
from cli.shell.problems import ProblemResponseError
from tools.chaos.fault import FaultRun
from tools.chaos.requests import API_CALL, API_WAIT, CorrelationKey, register
from tools.load.tasks import poll

AnswerT = TypeVar("AnswerT")
_TIMEOUT = 15.0  # longer than the product's own: while it tries again for us, it is not serving
_SHORT_TIMEOUT = 0.1
_FIRED_WITHIN = 3  # seconds
_PROBES_PER_SHARD = 4
_SERVED_TIMEOUT = 90.0


async def wait_for_writes(client: Client, count: int) -> None:
    """Return once `count` new correlations were registered: enough to meet every shard."""
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(retry_until_true(lambda: register_new(client)))


async def wait_for_deadlines(client: Client) -> None:
    """Return once a deadline has fired that was set now: by a right clock, if all is well."""
    short = {"apiCall": API_CALL, "timeout": _SHORT_TIMEOUT}
    key = await retry_until_true(lambda: register_new(client, short))

    async def fires() -> bool:
        wait = await client.get(wait_path(*key), {"wait": _FIRED_WITHIN})
        return bool(wait["status"] == "timeout")

    await retry_until_true(fires)


async def wait_for_actors(client: Client, gone: Collection[int]) -> None:
    """Return once every actor is reported up, and none in a process of `gone`."""

    async def are_up() -> bool:
        actors = (await client.get("/api/status"))["actors"]
        up = all(actor["alive"] and actor.get("pid") not in gone for actor in actors)
        return len(actors) > 1 and up

    await retry_until_true(are_up)


async def wait_until_served(
    run: FaultRun, what: str, at: float, probes: int, *more: Callable[[], Awaitable[None]]
) -> bool:
    """Wait until callers have writes back, and for `more`; return False if that never happens.

    What happened `at` (a value of `run.elapsed`) is noted with the time that callers felt it.
    """
    try:
        async with asyncio.timeout(_SERVED_TIMEOUT):
            await wait_for_writes(run.client, probes)
            for wait in more:
                await wait()
    except TimeoutError:
        run.note(what, at)
        run.check("serves again", False, f"not within {_SERVED_TIMEOUT:.0f} s after {what}")
        return False
    run.note(what, at, run.elapsed - at)
    return True


async def count_probes(client: Client) -> int:
    """Return how many new correlations meet every shard, as good as certainly."""
    return _PROBES_PER_SHARD * max(1, await count_shards(client))


async def count_shards(client: Client) -> int:
    report = await retry_until_true(lambda: client.get("/api/status"))
    return sum(actor.get("kind") == "shard" for actor in report["actors"])


async def retry_until_true(call: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    """Ask until there is an answer, and not just a no."""

    async def answer() -> AnswerT | None:
        with contextlib.suppress(TimeoutError, UnreachableError, ProblemResponseError):
            async with asyncio.timeout(_TIMEOUT):
                return await call()
        return None

    return await poll(answer)


async def register_new(client: Client, data: Any = API_WAIT) -> CorrelationKey:
    """Register a new correlation; raises if it is refused."""
    return await register(client, (f"probe-{secrets.token_hex(8)}", secrets.token_hex(8)), data)
