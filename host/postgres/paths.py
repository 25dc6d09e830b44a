"""The files of an embedded server, and the lock that makes it the only one on its folder."""

import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from core.shared.errors import MusterError
from host.paths import PathBelow

# The kernel takes 107 bytes (macOS: 103) for a socket's whole path, "/.s.PGSQL.65535" included.
_MAX_SOCKET_DIR = 85
# Characters without a meaning in PostgreSQL's settings, URLs and shells.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/+-]+")
_SHORT_ROOT = Path("/tmp")  # noqa: S108  only a folder that is ours and closed is used below it
_LOG_LIMIT = 16 * 1024 * 1024
_LOG_PREFIX = re.compile(r"^\S+ \S+ \S+ \[\d+\] ")
_TAIL_BYTES = 4096
_TAIL_LINES = 4


class EmbeddedPostgresError(MusterError):
    """The embedded server cannot do this; the message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class ServerPaths:
    """The folder of one embedded server; every path is absolute, links resolved."""

    data_dir: Path
    pgdata = PathBelow("data_dir", "postgres")
    pid_file = PathBelow("pgdata", "postmaster.pid")
    log = PathBelow("data_dir", "postgres.log")
    password = PathBelow("data_dir", "postgres.password")
    """The role's password, needed over TCP only."""
    lock = PathBelow("data_dir", "postgres.lock")
    """Held while the server is started, then by every process of the server."""

    @classmethod
    def at(cls, data_dir: Path) -> Self:
        return cls(data_dir.expanduser().resolve())

    @property
    def socket_dir(self) -> Path:
        """A folder that the server's account owns, below one that is ours."""
        near = self.data_dir / "socket"
        plain = _PLAIN_PATH.fullmatch(str(near)) and len(str(near)) <= _MAX_SOCKET_DIR
        return near if plain else self._short_dir / "socket"

    @property
    def _short_dir(self) -> Path:
        """Replaces `data_dir` where the path of a socket would be too long or need quoting."""
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:12]
        return _SHORT_ROOT / f"muster-{digest}"

    def make_data_dir(self) -> None:
        """Make the folder closed to others; leave an existing one as it is."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def make_socket_dir(self, uid: int, gid: int) -> None:
        """Make the folder private to the server's account: the socket asks for no password.

        The holder of the lock empties it: PostgreSQL refuses to start beside a dead server's socket
        if its pid belongs to another process by now.
        """
        if self.socket_dir.parent == self._short_dir:
            _make_private(self._short_dir)
        self.socket_dir.mkdir(mode=0o700, exist_ok=True)
        for stale in self.socket_dir.glob(".s.PGSQL.*"):
            stale.unlink()
        os.chown(self.socket_dir, uid, gid)
        self.socket_dir.chmod(0o700)

    def remove_short_dir(self) -> None:
        """Leave nothing in the shared temporary folder."""
        if self.socket_dir.parent == self._short_dir and self._short_dir.exists():
            shutil.rmtree(self._short_dir)

    def try_lock(self) -> int | None:
        """Return the lock as a file descriptor, or None while another process holds it.

        Every process of the server inherits the descriptor, so the lock is free exactly when all of
        them have ended: even after a kill -9, and even if they run in another container.
        """
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def is_free(self) -> bool:
        """Return True if no server runs here and nobody is starting one."""
        if not self.lock.exists():
            return True
        descriptor = self.try_lock()
        if descriptor is None:
            return False
        os.close(descriptor)
        return True

    @contextmanager
    def appended_log(self) -> Iterator[int]:
        """Open the log for the server; rotate a long one first."""
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def logged_since(self, offset: int) -> str:
        """Return what the server logged after `offset`, shortened."""
        with self.log.open("rb") as log:
            log.seek(max(offset, self.log.stat().st_size - _TAIL_BYTES))
            return last_log_lines(log.read())

    @contextmanager
    def logged_errors(self) -> Iterator[None]:
        """Turn an error of the operating system into one sentence."""
        try:
            yield
        except PermissionError as exc:
            raise EmbeddedPostgresError(
                f"This user may not use {exc.filename or self.data_dir} for the embedded "
                f"PostgreSQL ({exc.strerror}): choose another data folder or change its owner."
            ) from exc
        except OSError as exc:
            raise EmbeddedPostgresError(
                f"The embedded PostgreSQL cannot use {exc.filename or self.data_dir}: "
                f"{exc.strerror or exc}."
            ) from exc


def last_log_lines(output: bytes) -> str:
    """Return the lines that say why a PostgreSQL program ended, without timestamps."""
    lines = [_LOG_PREFIX.sub("", line) for line in output.decode(errors="replace").splitlines()]
    reasons = [line for line in lines if re.match(r"FATAL|PANIC|.*\berror:|cannot launch", line)]
    shown = (reasons or [line for line in lines if line.strip()])[-_TAIL_LINES:]
    return " / ".join(re.sub(r"\s+", " ", line).strip() for line in shown) or "no reason was logged"


def _make_private(folder: Path) -> None:
    """Make a folder that is ours and closed; in a shared folder, others may have made it before."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise EmbeddedPostgresError(
            f"{folder} must be a folder of this user that is closed to others: remove it, "
            "or choose a shorter data folder without spaces."
        )
