"""Creates the data folder of the embedded server, all or nothing, and refuses one it cannot use."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from host.postgres.account import ServerAccount, run
from host.postgres.paths import EmbeddedPostgresError, ServerPaths, last_log_lines
from storage.encryption.key_file import sync_folder, write_private
from storage.postgres.queries import load

_Q = load("host.postgres")

MAJOR_VERSION = "18"
_CREATE_TIMEOUT = 120
# The builtin provider sorts by code point and folds case by Unicode on every system.
_LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
# The socket needs no password: only its owner and root can reach it.
_AUTHENTICATION = ("--auth-local=trust", "--auth-host=scram-sha-256")


def is_created(place: ServerPaths) -> bool:
    """Return True if there is data of our version; raise on any other content."""
    try:
        version = (place.pgdata / "PG_VERSION").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        if place.pgdata.exists() and any(place.pgdata.iterdir()):
            raise EmbeddedPostgresError(
                f"{place.pgdata} is not a PostgreSQL data folder: move its content away or "
                "choose another data folder."
            ) from None
        return False
    if version != MAJOR_VERSION:
        raise EmbeddedPostgresError(
            f"{place.pgdata} holds data of PostgreSQL {version}, but Muster runs PostgreSQL "
            f"{MAJOR_VERSION}: move it with pg_dump, choose another data folder, or set "
            "MUSTER_DATABASE_URL to a server that can read it."
        )
    return True


def create(
    place: ServerPaths, account: ServerAccount, binaries: Path, *, lock: int, durable: bool
) -> None:
    """Build the cluster under another name and rename it last: an incomplete one never counts.

    The programs inherit `lock`: if we are killed, no other start begins while one of them runs.
    """
    fresh = place.data_dir / "postgres.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    fresh.mkdir(mode=0o700)
    os.chown(fresh, *account.owner)
    initdb = [str(binaries / "initdb"), f"--pgdata={fresh}", "--username=postgres"]
    initdb += [*_LOCALE, *_AUTHENTICATION, "--no-instructions"]
    _run_step(account, initdb if durable else [*initdb, "--no-sync"], lock=lock)
    single = [str(binaries / "postgres"), "--single", "-j", "-D", str(fresh)]
    single += ["-c", "exit_on_error=on", "-c", f"fsync={'on' if durable else 'off'}", "postgres"]
    password = secrets.token_urlsafe(24)
    # Written before its role exists, so that no role has an unknown one.
    write_private(place.password, password)
    role = _Q["create_embedded_role"].format(password=password)
    # With -j, an empty line ends a statement.
    setup = f"{role};\n\n{_Q['create_embedded_database']};\n\n"
    _run_step(account, single, lock=lock, stdin=setup.encode())
    fresh.rename(place.pgdata)
    sync_folder(place.data_dir)


def _run_step(account: ServerAccount, program: list[str], *, lock: int, stdin: bytes = b"") -> None:
    name = Path(program[0]).name
    try:
        done = run(account, program, stdin=stdin, keep=[lock], timeout=_CREATE_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise EmbeddedPostgresError(
            f"The embedded PostgreSQL could not be set up: {name} did not end within "
            f"{_CREATE_TIMEOUT} seconds."
        ) from None
    if done.returncode != 0:
        raise EmbeddedPostgresError(
            f"The embedded PostgreSQL could not be set up: {last_log_lines(done.stderr)}."
        )
