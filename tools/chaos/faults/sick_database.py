"""The database is there and of no use: it can only be read, or it answers nothing at all.

Played on our embedded PostgreSQL only. What needs a second server or a network between is in
tests/chaos: a standby that takes over, a schema that is not ours, a path that is cut one way.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil

from cli.shell.errors import CommandError
from host.postgres import embedded
from host.processes import PROCESS_GONE
from storage.postgres.pool import connect_plain
from tools.chaos.fault import Disruption, Fault, FaultRun, InjectFault
from tools.chaos.faults.database import check_recovery_time, wait_until_served
from tools.chaos.probe import count_shards

_PROBES_PER_SHARD = 4
# Seconds for which a request waits, by default: nobody is told of shorter troubles.
REQUEST_WAIT_SECONDS = 10.0
_READ_ONLY = "default_transaction_read_only"
_END_OTHERS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where usename = current_user and pid <> pg_backend_pid()"
)


def _database_fault(
    spell: Callable[[Path], AbstractAsyncContextManager[None]], what: str
) -> InjectFault:
    """Build a fault that does this to the database for `seconds`."""

    async def inject(scene: FaultRun) -> None:
        probes = _PROBES_PER_SHARD * max(1, await count_shards(scene.client))
        stats = scene.drill.load.stats
        refused = stats.refused.total()
        before = await _processes(scene)
        async with spell(scene.local.data_dir):
            scene.note(Disruption(f"{what} for {scene.seconds:g} s", scene.elapsed))
            began = time.monotonic()
            while (elapsed := time.monotonic() - began) < scene.seconds:
                scene.progress = elapsed / scene.seconds
                await asyncio.sleep(0.1)
        at, well = scene.elapsed, time.monotonic()
        if not await wait_until_served(scene, "PostgreSQL is well again", (at, well), probes):
            return
        check_recovery_time(scene, [time.monotonic() - well])
        refused = stats.refused.total() - refused
        if scene.seconds > REQUEST_WAIT_SECONDS:
            scene.check("callers are told to come back", refused > 0, f"{refused} times")
        others = dict(stats.unexpected)
        scene.check("nothing else is answered", not others, f"{others or 'no other answer'}")
        after = await _processes(scene)
        gone = sorted(name for name, pid in before.items() if after.get(name) != pid)
        scene.check(
            "no actor has to end for it", not gone, f"{', '.join(gone) or 'none'} started again"
        )

    return inject


@contextlib.asynccontextmanager
async def _read_only(data_dir: Path) -> AsyncIterator[None]:
    """Sessions that begin now can only read, and stay so when others can write again."""
    await _in_database(data_dir, f"alter role current_user set {_READ_ONLY} = on", _END_OTHERS)
    try:
        yield
    finally:
        await _in_database(data_dir, f"alter role current_user reset {_READ_ONLY}")


@contextlib.asynccontextmanager
async def _frozen(data_dir: Path) -> AsyncIterator[None]:
    """Stop every process of the server where it is; connections stay open and nothing comes."""
    server = embedded.running(data_dir)
    if server is None:
        raise CommandError(f"No PostgreSQL of ours runs on {data_dir}.")
    postmaster = psutil.Process(server.pid)
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


async def _in_database(data_dir: Path, *statements: str) -> None:
    server = embedded.running(data_dir)
    if server is None:
        raise CommandError(f"No PostgreSQL of ours runs on {data_dir}.")
    conn = await connect_plain(server.dsn, {_READ_ONLY: "off"})
    try:
        for statement in statements:
            await conn.execute(statement)
    finally:
        await conn.close()


async def _processes(scene: FaultRun) -> dict[str, int]:
    report = await scene.client.get("/api/status")
    return {actor["name"]: actor.get("pid", 0) for actor in report["actors"]}


SICK_DATABASE = (
    Fault(
        name="postgres-read-only",
        summary="PostgreSQL can only be read, as in a failover; serves soon after it is over.",
        inject=_database_fault(_read_only, "PostgreSQL is read-only"),
        seconds=20.0,
        needs_embedded=True,
    ),
    Fault(
        name="postgres-frozen",
        summary="PostgreSQL stands still with all its connections, then goes on.",
        inject=_database_fault(_frozen, "PostgreSQL stands still"),
        seconds=20.0,
        needs_embedded=True,
    ),
)
