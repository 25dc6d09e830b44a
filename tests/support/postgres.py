"""A real PostgreSQL for tests: one server a session, a fresh migrated database a test."""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import asyncpg
import pytest

from host.postgres import embedded
from host.postgres.embedded import EmbeddedServer
from host.postgres.paths import ServerPaths
from host.postgres.postmaster import find_postmaster
from tests.support.process_logs import watched

_TEMPLATE = "muster_template"


@dataclass(slots=True)
class BareServer:
    """A durable server of the test's own, without tables, to be stopped and started at will.

    Its `dsn` stays the same over restarts.
    """

    server: EmbeddedServer

    @property
    def dsn(self) -> str:
        return self.server.dsn

    def start(self) -> None:
        self.server = embedded.start(self.server.data_dir)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        embedded.stop(self.server, mode=mode)

    def kill(self) -> None:
        """As if the kernel ran out of memory: the postmaster gets no chance to clean up."""
        os.kill(self.server.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while (dying := find_postmaster(ServerPaths.at(self.server.data_dir))) is not None:
            # A busy machine takes its time to bury the dead.
            assert dying.pid == self.server.pid
            assert time.monotonic() < deadline
            time.sleep(0.01)


def database_dsn(server: EmbeddedServer, name: str) -> str:
    """The address of another database on the same server."""
    return urlsplit(server.dsn)._replace(path=f"/{name}").geturl()


async def execute(dsn: str, statement: str) -> None:
    """One statement on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def create_database(server: EmbeddedServer, name: str, template: str) -> str:
    """Copy a database by its files, which is cheaper than by its log; the address of the copy."""
    copy = f"create database {name} template {template} strategy file_copy"
    await execute(server.dsn, copy)
    return database_dsn(server, name)


async def drop_database(server: EmbeddedServer, name: str) -> None:
    """Remove it with whoever is in it: an autovacuum worker gives way to a superuser only."""
    admin = server.dsn.replace("//muster@", "//postgres@")
    await execute(admin, f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The session's server: fast, and forgetful if the machine loses power."""
    folder = tmp_path_factory.mktemp("postgres")
    with watched(ServerPaths.at(folder).log):
        server = embedded.start(folder, durable=False)
        yield server
        embedded.stop(server, mode="immediate")


@pytest.fixture(scope="session")
async def template_database(postgres_server: EmbeddedServer) -> str:
    """Migrated once; every test's database is a copy of it."""
    from storage.postgres.migrate import migrate

    await execute(postgres_server.dsn, f"create database {_TEMPLATE}")
    await migrate(database_dsn(postgres_server, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
async def database(postgres_server: EmbeddedServer, template_database: str) -> AsyncIterator[str]:
    """The address of a fresh, migrated database, dropped after the test."""
    name = f"test_{uuid.uuid4().hex}"
    yield await create_database(postgres_server, name, template_database)
    await drop_database(postgres_server, name)


@pytest.fixture(scope="session")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a server that was made and stopped; to be copied, not used."""
    folder = tmp_path_factory.mktemp("made")
    embedded.start(folder, durable=False)
    embedded.stop(folder)
    return folder


@pytest.fixture
def data_dir(tmp_path: Path, made_data: Path) -> Iterator[Path]:
    """A data folder of the test's own; whatever runs there is stopped after the test."""
    folder = tmp_path / ".muster"
    subprocess.run(["cp", "-a", str(made_data), str(folder)], check=True)  # keeps the owners
    yield folder
    embedded.stop(folder, mode="immediate")


@pytest.fixture
def bare_server(data_dir: Path) -> BareServer:
    """A server that only this test uses."""
    return BareServer(embedded.start(data_dir))
