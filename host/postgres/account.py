"""The account of the embedded server, because PostgreSQL refuses to run as root.

The server of an ordinary user runs as that user. Root's server runs as the owner of its data: first
as `nobody`, which keeps one capability to pass folders that are closed to it (/root); where ids
cannot be changed (a container with a single id), in a user namespace in which root appears as
`nobody`.
"""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from host.postgres import launch
from host.postgres.paths import EmbeddedPostgresError, ServerPaths, last_log_lines

_PROBE_TIMEOUT = 20
_NOBODY = 65534


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """The account that a program runs as; in a namespace, the ids that it sees itself."""

    kind: Literal["same", "user", "namespace"]
    uid: int
    gid: int

    @property
    def owner(self) -> tuple[int, int]:
        """The ids that other processes see on its files."""
        return (self.uid, self.gid) if self.kind == "user" else (os.geteuid(), os.getegid())


def choose_account(place: ServerPaths, postgres: Path) -> ServerAccount:
    """Return the account that owns the data; for new data, the first that this machine allows."""
    if os.geteuid() != 0:
        return ServerAccount("same", os.geteuid(), os.getegid())
    uid, gid = _nobody()
    namespace = ServerAccount("namespace", uid, gid)
    if (place.pgdata / "PG_VERSION").exists():
        owner = place.pgdata.stat()
        return ServerAccount("user", owner.st_uid, owner.st_gid) if owner.st_uid else namespace
    refusals: list[str] = []
    for account in (ServerAccount("user", uid, gid), namespace):
        probe = run(account, [str(postgres), "--version"], timeout=_PROBE_TIMEOUT)
        if probe.returncode == 0:
            return account
        refusals.append(last_log_lines(probe.stderr).removeprefix(f"cannot launch {postgres}: "))
    raise EmbeddedPostgresError(
        "PostgreSQL does not run as root and this machine lets root become no other user "
        f"({', then '.join(refusals)}): run Muster as an ordinary user or set MUSTER_DATABASE_URL."
    )


def run(
    account: ServerAccount,
    program: Sequence[str],
    *,
    timeout: float,
    stdin: bytes = b"",
    keep: Sequence[int] = (),
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end; it inherits the descriptors in `keep`."""
    return subprocess.run(
        _launch(account, program, detach=False),
        input=stdin,
        capture_output=True,
        check=False,
        timeout=timeout,
        pass_fds=keep,
        start_new_session=True,
        cwd="/",
        env=_environment(),
    )


def spawn(account: ServerAccount, program: Sequence[str], *, log: int, keep: Sequence[int]) -> None:
    """Start a program in a new session, which neither Ctrl-C nor our end reaches."""
    subprocess.run(
        _launch(account, program, detach=True),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        check=True,
        pass_fds=keep,
        start_new_session=True,
        cwd="/",
        env=_environment(),
    )


def _launch(account: ServerAccount, program: Sequence[str], *, detach: bool) -> list[str]:
    order: launch.LaunchOrder = {
        "program": list(program),
        "account": account.kind,
        "uid": account.uid,
        "gid": account.gid,
        "detach": detach,
    }
    return [sys.executable, "-I", "-S", launch.__file__, json.dumps(order)]


def _environment() -> dict[str, str]:
    """Return only what finds programs and libraries: no PG* variables, no secrets."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"LC_ALL": "C"}


def _nobody() -> tuple[int, int]:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return _NOBODY, _NOBODY
    return entry.pw_uid, entry.pw_gid
