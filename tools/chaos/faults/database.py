"""The database breaks off, or is gone for a while. Only our embedded PostgreSQL may be stopped."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemError
from host.postgres import embedded
from tools.chaos.fault import Blow, Fault, Scene
from tools.chaos.faults.memory import MEGABYTE, watched_memory
from tools.chaos.probe import fires_again, shards_of, writes_again

_BETWEEN = (0.5, 2.0)
_BACK_WITHIN = 60.0
_LOOK_EVERY = 0.5
_PROBES_PER_SHARD = 4
SERVES_WITHIN = 10.0
"""Seconds after PostgreSQL is up again."""
MAY_GROW = 128 * MEGABYTE


async def restart(scene: Scene) -> None:
    """Immediate stop and start, again and again."""
    probes = _PROBES_PER_SHARD * max(1, await shards_of(scene.client))
    after_up: list[float] = []
    for number in range(scene.times):
        scene.share = number / scene.times
        await asyncio.sleep(scene.chance.uniform(*_BETWEEN))
        at, began = scene.elapsed, time.monotonic()
        async with _without_postgres(scene.local.data_dir):
            pass
        up = time.monotonic()
        if not await served_again(scene, "PostgreSQL restarted", (at, began), probes):
            return
        after_up.append(time.monotonic() - up)
    check_return(scene, after_up)


async def gone(scene: Scene) -> None:
    """No PostgreSQL for `seconds`: nothing is promised meanwhile, and nothing grows."""
    probes = _PROBES_PER_SHARD * max(1, await shards_of(scene.client))
    tally = scene.drill.load.tally
    refused_before = tally.refused[503]
    async with watched_memory(scene.local.run_dir) as memory:
        at, began = scene.elapsed, time.monotonic()
        async with _without_postgres(scene.local.data_dir):
            scene.note(Blow(f"PostgreSQL is gone for {scene.seconds:g} s", at))
            alive, ready = await _look(scene, began)
        at, up = scene.elapsed, time.monotonic()
        if not await served_again(scene, "PostgreSQL is back", (at, up), probes):
            return
        check_return(scene, [time.monotonic() - up])
    refused = tally.refused[503] - refused_before
    scene.check("callers are told 503", refused > 0, f"{refused} times")
    scene.check("replicas stay alive", alive, "liveness answered 200 all the time")
    scene.check("readiness tells", not ready, "readiness answered 503")
    scene.check("memory is bounded", *memory.within(MAY_GROW))


@contextlib.asynccontextmanager
async def _without_postgres(data_dir: Path) -> AsyncIterator[None]:
    """Stop the server as if it had crashed; start it again in any case."""
    await asyncio.to_thread(embedded.stop, data_dir, mode="immediate")
    try:
        yield
    finally:
        await asyncio.to_thread(embedded.start, data_dir)


async def served_again(scene: Scene, what: str, since: tuple[float, float], probes: int) -> bool:
    """Wait until callers have writes and deadlines back; False if that never happens."""
    at, began = since
    try:
        async with asyncio.timeout(_BACK_WITHIN):
            await writes_again(scene.client, probes)
            await fires_again(scene.client)
    except TimeoutError:
        scene.check("serves again", False, f"not within {_BACK_WITHIN:.0f} s")
        return False
    scene.note(Blow(what, at, time.monotonic() - began))
    return True


def check_return(scene: Scene, after_up: list[float]) -> None:
    """Hold the longest of these times against the bound."""
    longest = max(after_up, default=0.0)
    seen = f"{longest:.1f} s at most; the bound is {SERVES_WITHIN:g} s"
    scene.check("serves soon after PostgreSQL is up", longest <= SERVES_WITHIN, seen)


async def _look(scene: Scene, began: float) -> tuple[bool, bool]:
    """Whether liveness never failed, and whether readiness said yes at the end."""
    alive, ready = True, True
    while (elapsed := time.monotonic() - began) < scene.seconds:
        scene.share = elapsed / scene.seconds
        alive = alive and await _says_yes(scene.client, "liveness")
        ready = await _says_yes(scene.client, "readiness")
        await asyncio.sleep(_LOOK_EVERY)
    return alive, ready


async def _says_yes(client: Client, question: str) -> bool:
    try:
        await client.get(f"/actuator/health/{question}")
    except (ProblemError, UnreachableError):
        return False
    return True


DATABASE = (
    Fault(
        name="postgres-restart",
        summary="PostgreSQL stops at once (immediate) and starts again, ten times.",
        strike=restart,
        times=10,
        needs_embedded=True,
    ),
    Fault(
        name="postgres-gone",
        summary="No PostgreSQL for a minute: 503 with Retry-After, then everything goes on.",
        strike=gone,
        seconds=60.0,
        needs_embedded=True,
    ),
)
