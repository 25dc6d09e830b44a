"""PostgreSQL breaks off, is gone, can only be read, or answers nothing. Only ours may be stopped.

What needs a second server or a network between is in tests/chaos: a standby that takes over, a
schema that is not ours, a path that is cut one way.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil

from cli.shell.client import Client, UnreachableError
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemResponseError
from host.postgres import embedded
from host.processes import PROCESS_GONE
from storage.postgres.pool import connect_plain
from tools.chaos.fault import Fault, FaultRun, InjectFault, fault
from tools.chaos.faults.processes import MEGABYTE, bounded_memory
from tools.chaos.probe import count_probes, wait_for_deadlines, wait_until_served

_BETWEEN = (0.5, 2.0)
_CHECK_EVERY = 0.5
MAX_RECOVERY_SECONDS = 10.0
"""Seconds after PostgreSQL is up again."""
MAX_MEMORY_GROWTH = 128 * MEGABYTE
# Seconds for which a request waits, by default: shorter troubles are not answered by a refusal.
_REQUEST_WAIT_SECONDS = 10.0
_READ_ONLY = "default_transaction_read_only"
_END_OTHERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where usename = current_user and pid <> pg_backend_pid()"
)


@fault(
    "postgres-restart",
    "PostgreSQL stops at once (immediate) and starts again, ten times.",
    times=10,
    needs_embedded=True,
)
async def restart(run: FaultRun) -> None:
    """Stop PostgreSQL at once and start it, again and again."""
    probes = await count_probes(run.client)
    longest = 0.0
    for number in range(run.times):
        run.progress = number / run.times
        await asyncio.sleep(run.rng.uniform(*_BETWEEN))
        at = run.elapsed
        async with _without_postgres(run.local.data_dir):
            pass
        up = run.elapsed
        if not await _wait_until_served(run, "PostgreSQL restarted", at, probes):
            return
        longest = max(longest, run.elapsed - up)
    _check_recovery_time(run, longest)


@fault(
    "postgres-gone",
    "No PostgreSQL for a minute: 503 with Retry-After, then everything goes on.",
    seconds=60.0,
    needs_embedded=True,
)
async def outage(run: FaultRun) -> None:
    """Stop PostgreSQL for `seconds`: nothing is acknowledged meanwhile, and nothing grows."""
    probes, stats = await count_probes(run.client), run.drill.load.stats
    refused_before = stats.refused[503]
    async with bounded_memory(run, MAX_MEMORY_GROWTH):
        async with _without_postgres(run.local.data_dir):
            run.note(f"PostgreSQL is gone for {run.seconds:g} s")
            alive, ready = await _watch_health(run)
        if not await _serves_in_time(run, "PostgreSQL is back", probes):
            return
    refused = stats.refused[503] - refused_before
    run.check("callers are answered 503", refused > 0, f"{refused} times")
    run.check("replicas stay alive", alive, "liveness answered 200 all the time")
    run.check("readiness reports it", not ready, "readiness answered 503")


def _impairment(
    impair: Callable[[Path], AbstractAsyncContextManager[None]], what: str
) -> InjectFault:
    """Build a fault that impairs the database for `seconds`."""

    async def inject(run: FaultRun) -> None:
        probes, stats = await count_probes(run.client), run.drill.load.stats
        refused_before, pids = stats.refused.total(), await _actor_pids(run)
        async with impair(run.local.data_dir):
            run.note(f"{what} for {run.seconds:g} s")
            async for _ in _passing_time(run, 0.1):
                pass
        if not await _serves_in_time(run, "PostgreSQL is well again", probes):
            return
        refused = stats.refused.total() - refused_before
        if run.seconds > _REQUEST_WAIT_SECONDS:
            run.check("callers are asked to come back", refused > 0, f"{refused} times")
        others = dict(stats.unexpected)
        run.check("nothing else is answered", not others, f"{others or 'no other answer'}")
        now = await _actor_pids(run)
        gone = ", ".join(sorted(name for name, pid in pids.items() if now.get(name) != pid))
        run.check("no actor has to end for it", not gone, f"{gone or 'none'} started again")

    return inject


async def _wait_until_served(run: FaultRun, what: str, at: float, probes: int) -> bool:
    deadlines = functools.partial(wait_for_deadlines, run.client)
    return await wait_until_served(run, what, at, probes, deadlines)


async def _serves_in_time(run: FaultRun, what: str, probes: int) -> bool:
    at = run.elapsed
    if not await _wait_until_served(run, what, at, probes):
        return False
    _check_recovery_time(run, run.elapsed - at)
    return True


def _check_recovery_time(run: FaultRun, longest: float) -> None:
    seen = f"{longest:.1f} s at most; the bound is {MAX_RECOVERY_SECONDS:g} s"
    run.check("serves soon after PostgreSQL is up", longest <= MAX_RECOVERY_SECONDS, seen)


async def _passing_time(run: FaultRun, every: float) -> AsyncIterator[None]:
    """Go round until the seconds of the fault are over, and show its progress."""
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < run.seconds:
        run.progress = elapsed / run.seconds
        yield
        await asyncio.sleep(every)


async def _watch_health(run: FaultRun) -> tuple[bool, bool]:
    """Return whether liveness never failed, and whether readiness said yes at the end."""
    alive, ready = True, True
    async for _ in _passing_time(run, _CHECK_EVERY):
        alive = alive and await _is_healthy(run.client, "liveness")
        ready = await _is_healthy(run.client, "readiness")
    return alive, ready


async def _is_healthy(client: Client, question: str) -> bool:
    try:
        await client.get(f"/actuator/health/{question}")
    except (ProblemResponseError, UnreachableError):
        return False
    return True


async def _actor_pids(run: FaultRun) -> dict[str, int]:
    report = await run.client.get("/api/status")
    return {actor["name"]: actor.get("pid", 0) for actor in report["actors"]}


@contextlib.asynccontextmanager
async def _without_postgres(data_dir: Path) -> AsyncIterator[None]:
    """Stop the server as if it had crashed; start it again in any case."""
    await asyncio.to_thread(embedded.stop, data_dir, mode="immediate")
    try:
        yield
    finally:
        await asyncio.to_thread(embedded.start, data_dir)


@contextlib.asynccontextmanager
async def _read_only(data_dir: Path) -> AsyncIterator[None]:
    """Let sessions that begin now only read; they stay so when others can write again."""
    await _execute(data_dir, f"alter role current_user set {_READ_ONLY} = on", _END_OTHERS)
    try:
        yield
    finally:
        await _execute(data_dir, f"alter role current_user reset {_READ_ONLY}")


@contextlib.asynccontextmanager
async def _frozen(data_dir: Path) -> AsyncIterator[None]:
    """Stop every process of the server where it is; connections stay open and nothing comes."""
    postmaster = psutil.Process(_server(data_dir).pid)
    stopped = [postmaster, *postmaster.children(recursive=True)]
    try:
        for process in stopped:
            with contextlib.suppress(*PROCESS_GONE):
                process.suspend()
        yield
    finally:
        for process in stopped:
            with contextlib.suppress(*PROCESS_GONE):
                process.resume()


async def _execute(data_dir: Path, *statements: str) -> None:
    conn = await connect_plain(_server(data_dir).dsn, {_READ_ONLY: "off"})
    try:
        for statement in statements:
            await conn.execute(statement)
    finally:
        await conn.close()


def _server(data_dir: Path) -> embedded.EmbeddedServer:
    server = embedded.running(data_dir)
    if server is None:
        raise CommandError(f"No PostgreSQL of ours runs on {data_dir}.")
    return server


read_only = Fault(
    "postgres-read-only",
    "PostgreSQL can only be read, as in a failover; serves soon after it is over.",
    _impairment(_read_only, "PostgreSQL is read-only"),
    needs_embedded=True,
)
frozen = Fault(
    "postgres-frozen",
    "PostgreSQL stands still with all its connections, then goes on.",
    _impairment(_frozen, "PostgreSQL stands still"),
    needs_embedded=True,
)
