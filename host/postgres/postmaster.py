"""Reads the pid file of the server on a folder and checks it against the process."""

from dataclasses import dataclass
from pathlib import Path

import psutil

from host.postgres.paths import ServerPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Postmaster:
    """A live server; `ready` once it accepts connections."""

    pid: int
    port: int
    socket_dir: Path
    listens: bool
    ready: bool
    command: tuple[str, ...]


def find_postmaster(place: ServerPaths) -> Postmaster | None:
    """Find the live server on this data; None if its pid belongs to another process by now."""
    lines = _pid_file_lines(place)
    pid = _pid(lines)
    command = _command(pid, place.pgdata) if pid is not None else None
    if pid is None or command is None:
        return None
    # PostgreSQL adds the lines one by one as it starts.
    _, _, _, port, socket_dir, address, _, status = (*lines, *[""] * 8)[:8]
    return Postmaster(
        pid=pid,
        port=int(port or 0),
        socket_dir=Path(socket_dir),
        listens=bool(address),
        ready=status.strip() == "ready",
        command=command,
    )


def drop_stale_pid_file(place: ServerPaths) -> None:
    """Remove the pid file of a dead server where PostgreSQL would refuse to start because of it.

    It does so if the file is empty (power loss), or if another process of ours has its pid by now,
    as happens in containers. A file whose pid is gone is left to PostgreSQL, which then also checks
    for processes that are still attached to the old shared memory.
    """
    if not place.pid_file.exists():
        return
    pid = _pid(_pid_file_lines(place))
    if pid is None or psutil.pid_exists(pid):
        place.pid_file.unlink()


def _pid_file_lines(place: ServerPaths) -> list[str]:
    try:
        return place.pid_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _pid(lines: list[str]) -> int | None:
    """Return the pid in the file; a single-user server writes it as a negative number."""
    number = lines[0].strip().lstrip("-") if lines else ""
    return int(number) if number.isascii() and number.isdigit() and int(number) > 0 else None


def _command(pid: int, pgdata: Path) -> tuple[str, ...] | None:
    """Return the command line of `pid` if it is a PostgreSQL server on this data."""
    try:
        process = psutil.Process(pid)
        command = tuple(process.cmdline())
        is_postgres = any(Path(word).name == "postgres" for word in command[:3])
        if is_postgres and (str(pgdata) in command or process.cwd() == str(pgdata)):
            return command
    except psutil.Error:  # gone, a zombie, or of another user
        pass
    return None
