"""The database breaks off, or is gone for a while. Only our embedded PostgreSQL may be stopped."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemResponseError
from host.postgres import embedded
from tools.chaos.fault import Disruption, Fault, FaultRun
from tools.chaos.faults.memory import MEGABYTE, watch_memory
from tools.chaos.probe import count_shards, wait_for_deadlines, wait_for_writes

_BETWEEN = (0.5, 2.0)
_BACK_WITHIN = 60.0
_CHECK_EVERY = 0.5
_PROBES_PER_SHARD = 4
MAX_RECOVERY_SECONDS = 10.0
"""Seconds after PostgreSQL is up again."""
MAX_MEMORY_GROWTH = 128 * MEGABYTE


async def restart(scene: FaultRun) -> None:
    """Immediate stop and start, again and again."""
    probes = _PROBES_PER_SHARD * max(1, await count_shards(scene.client))
    after_up: list[float] = []
    for number in range(scene.times):
        scene.progress = number / scene.times
        await asyncio.sleep(scene.rng.uniform(*_BETWEEN))
        at, began = scene.elapsed, time.monotonic()
        async with _without_postgres(scene.local.data_dir):
            pass
        up = time.monotonic()
        if not await wait_until_served(scene, "PostgreSQL restarted", (at, began), probes):
            return
        after_up.append(time.monotonic() - up)
    check_recovery_time(scene, after_up)


async def outage(scene: FaultRun) -> None:
    """No PostgreSQL for `seconds`: nothing is promised meanwhile, and nothing grows."""
    probes = _PROBES_PER_SHARD * max(1, await count_shards(scene.client))
    stats = scene.drill.load.stats
    refused_before = stats.refused[503]
    async with watch_memory(scene.local.run_dir) as memory:
        at, began = scene.elapsed, time.monotonic()
        async with _without_postgres(scene.local.data_dir):
            scene.note(Disruption(f"PostgreSQL is gone for {scene.seconds:g} s", at))
            alive, ready = await _watch_health(scene, began)
        at, up = scene.elapsed, time.monotonic()
        if not await wait_until_served(scene, "PostgreSQL is back", (at, up), probes):
            return
        check_recovery_time(scene, [time.monotonic() - up])
    refused = stats.refused[503] - refused_before
    scene.check("callers are told 503", refused > 0, f"{refused} times")
    scene.check("replicas stay alive", alive, "liveness answered 200 all the time")
    scene.check("readiness tells", not ready, "readiness answered 503")
    scene.check("memory is bounded", *memory.within(MAX_MEMORY_GROWTH))


@contextlib.asynccontextmanager
async def _without_postgres(data_dir: Path) -> AsyncIterator[None]:
    """Stop the server as if it had crashed; start it again in any case."""
    await asyncio.to_thread(embedded.stop, data_dir, mode="immediate")
    try:
        yield
    finally:
        await asyncio.to_thread(embedded.start, data_dir)


async def wait_until_served(
    scene: FaultRun, what: str, since: tuple[float, float], probes: int
) -> bool:
    """Wait until callers have writes and deadlines back; False if that never happens."""
    at, began = since
    try:
        async with asyncio.timeout(_BACK_WITHIN):
            await wait_for_writes(scene.client, probes)
            await wait_for_deadlines(scene.client)
    except TimeoutError:
        scene.check("serves again", False, f"not within {_BACK_WITHIN:.0f} s")
        return False
    scene.note(Disruption(what, at, time.monotonic() - began))
    return True


def check_recovery_time(scene: FaultRun, after_up: list[float]) -> None:
    """Hold the longest of these times against the bound."""
    longest = max(after_up, default=0.0)
    seen = f"{longest:.1f} s at most; the bound is {MAX_RECOVERY_SECONDS:g} s"
    scene.check("serves soon after PostgreSQL is up", longest <= MAX_RECOVERY_SECONDS, seen)


async def _watch_health(scene: FaultRun, began: float) -> tuple[bool, bool]:
    """Whether liveness never failed, and whether readiness said yes at the end."""
    alive, ready = True, True
    while (elapsed := time.monotonic() - began) < scene.seconds:
        scene.progress = elapsed / scene.seconds
        alive = alive and await _is_healthy(scene.client, "liveness")
        ready = await _is_healthy(scene.client, "readiness")
        await asyncio.sleep(_CHECK_EVERY)
    return alive, ready


async def _is_healthy(client: Client, question: str) -> bool:
    try:
        await client.get(f"/actuator/health/{question}")
    except (ProblemResponseError, UnreachableError):
        return False
    return True


DATABASE = (
    Fault(
        name="postgres-restart",
        summary="PostgreSQL stops at once (immediate) and starts again, ten times.",
        inject=restart,
        times=10,
        needs_embedded=True,
    ),
    Fault(
        name="postgres-gone",
        summary="No PostgreSQL for a minute: 503 with Retry-After, then everything goes on.",
        inject=outage,
        seconds=60.0,
        needs_embedded=True,
    ),
)
