"""A PostgreSQL and its streaming replica on loopback, behind one address.

The replica is a real one: made by pg_basebackup, fed by a walreceiver, promoted by pg_ctl.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from host.ports import free_port
from host.postgres import embedded
from host.postgres.account import ServerAccount, choose_account, run
from host.postgres.paths import ServerPaths, last_log_lines
from storage.postgres.pool import Connection
from tests.support.process_logs import watched
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

_TIMEOUT = 120.0
# Fast, but what was committed is in the log before anybody is told so: the log is what is copied.
_SETTINGS = {"synchronous_commit": "on", "full_page_writes": "on"}


@dataclass(slots=True)
class Replica:
    """A server that follows another, until it is promoted."""

    pgdata: Path
    socket_dir: Path
    port: int
    account: ServerAccount = field(repr=False)
    binaries: Path = field(repr=False)

    def start(self) -> None:
        settings = {
            **embedded.SETTINGS,
            **embedded.NOT_DURABLE,
            **_SETTINGS,
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.socket_dir,
        }
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self._pg_ctl("start", "-w", "-l", str(self.pgdata.parent / "replica.log"), "-o", options)

    def stop(self) -> None:
        self._pg_ctl("stop", "-m", "immediate")

    def promote(self) -> None:
        """Make it a server of its own; returns when it can be written."""
        self._pg_ctl("promote", "-w")

    def _pg_ctl(self, *words: str) -> None:
        self.command("pg_ctl", "-D", str(self.pgdata), *words)

    def command(self, name: str, *words: str) -> None:
        """Run a program of PostgreSQL as the owner of the data."""
        done = run(self.account, [str(self.binaries / name), *words], timeout=_TIMEOUT)
        assert done.returncode == 0, f"{name} {words}: {last_log_lines(done.stderr or done.stdout)}"


@dataclass(slots=True)
class ReplicatedPostgres:
    """A primary and its replica; `dsn` leads through the proxy to whichever is in charge."""

    primary: embedded.EmbeddedServer
    replica: Replica
    proxy: TcpProxy
    promoted: bool = False

    @property
    def dsn(self) -> str:
        """The address that stays the same."""
        return self._at(self.proxy.port)

    @property
    def direct(self) -> str:
        """The server in charge, not through the proxy."""
        return self._at(self.replica.port if self.promoted else self.primary.port)

    @property
    def admin(self) -> str:
        """The server in charge, as its superuser."""
        return _admin_of(self.replica if self.promoted else self.primary)

    @property
    def replica_admin(self) -> str:
        """The replica, as its superuser."""
        return _admin_of(self.replica)

    async def disconnect_replica(self) -> None:
        """Let the replica hear nothing more of its primary."""
        conn = await asyncpg.connect(self.replica_admin)
        try:
            await conn.execute("alter system set primary_conninfo = ''")
            await conn.execute("select pg_reload_conf()")
            deadline = time.monotonic() + 10
            while await conn.fetchval("select count(*) from pg_stat_wal_receiver"):
                assert time.monotonic() < deadline, "the walreceiver goes on"
                await asyncio.sleep(0.02)
        finally:
            await conn.close()

    async def caught_up(self) -> None:
        """Return once the replica has replayed what the primary has written by now."""
        async with _connection(self.admin) as primary, _connection(self.replica_admin) as replica:
            written = await primary.fetchval("select pg_current_wal_insert_lsn()")
            deadline = time.monotonic() + 30
            query = "select pg_last_wal_replay_lsn() >= $1::pg_lsn"
            while not await replica.fetchval(query, written):
                assert time.monotonic() < deadline, "the replica does not catch up"
                await asyncio.sleep(0.02)

    def fail_over(self) -> None:
        """The primary is gone without a word; the replica takes its place and its address."""
        self.proxy.refuse()
        embedded.stop(self.primary, mode="immediate")
        self.replica.promote()
        self.promoted = True
        self.proxy.lead_to("127.0.0.1", self.replica.port)
        self.proxy.mend()

    def _at(self, port: int) -> str:
        assert self.primary.tcp_dsn is not None
        parts = urlsplit(self.primary.tcp_dsn)
        netloc = f"{parts.username}:{parts.password}@127.0.0.1:{port}"
        return parts._replace(netloc=netloc).geturl()


@contextlib.contextmanager
def running_pair(folder: Path) -> Iterator[ReplicatedPostgres]:
    """A primary with its replica, streaming, for as long as the block lasts."""
    data_dir = folder / "primary"
    words = (ServerPaths.at(data_dir).log, folder / "replica" / "replica.log")
    primary = embedded.start(data_dir, listen=True, settings=_SETTINGS, durable=False)
    with contextlib.ExitStack() as stack:
        stack.callback(embedded.stop, primary, mode="immediate")
        # The path of a socket may have a hundred characters, and folders of tests have more.
        socket_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-"))
        replica = _make_replica(primary, folder / "replica", Path(socket_dir))
        replica.start()
        stack.callback(replica.stop)
        proxy = stack.enter_context(tcp_proxy("127.0.0.1", primary.port))
        with watched(*words):
            yield ReplicatedPostgres(primary, replica, proxy)


def _admin_of(server: embedded.EmbeddedServer | Replica) -> str:
    return f"postgresql://postgres@/muster?host={server.socket_dir}&port={server.port}"


def _make_replica(primary: embedded.EmbeddedServer, folder: Path, socket_dir: Path) -> Replica:
    binaries = embedded._binaries()
    account = choose_account(ServerPaths.at(primary.data_dir), binaries / "postgres")
    pgdata = folder / "postgres"
    pgdata.mkdir(parents=True, mode=0o700)
    for path in (folder, pgdata, socket_dir):
        os.chown(path, *account.owner)
    replica = Replica(pgdata, socket_dir, free_port(), account, binaries)
    source = ["-h", str(primary.socket_dir), "-p", str(primary.port), "-U", "postgres"]
    how = ["-D", str(pgdata), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"]
    replica.command("pg_basebackup", *source, *how)
    return replica


@contextlib.asynccontextmanager
async def _connection(dsn: str) -> AsyncIterator[Connection]:
    conn = await asyncpg.connect(dsn)
    try:
        yield conn
    finally:
        await conn.close()
