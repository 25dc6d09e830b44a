"""`muster haproxy`: HAProxy on the machines of a cluster, with the limits of a single machine."""

import os
import stat
from pathlib import Path

from cli.shell.context import out, single_command
from cli.shell.errors import CommandError
from cli.shell.options import argument
from host.proxy.haproxy import LAUNCHER, ProxyOptions, find_program, write_launcher
from host.proxy.haproxy_limits import ProxyLimits
from settings.settings import Settings

# Ray puts a folder named by the node (56 characters) below this one, and HAProxy a socket into it,
# whose path may have 97 bytes.
MAX_PATH_BYTES = 97 - len("/admin.sock") - 57


def proxy_limits_of(settings: Settings) -> ProxyLimits:
    return ProxyLimits(
        body_seconds=settings.request_timeout,
        body_bytes=settings.max_body,
        source_connections=settings.source_connections,
    )


@single_command("muster haproxy ~/muster-front")
def haproxy(
    folder: Path = argument("Folder for HAProxy's files; only you can read it."),
) -> None:
    """Write the program that Ray starts as HAProxy; name it in RAY_SERVE_HAPROXY_BINARY_PATH."""
    folder = folder.expanduser().absolute()
    if len(os.fsencode(folder)) > MAX_PATH_BYTES:
        raise CommandError(
            f"The path {folder} is too long for the sockets in it: use one of at most "
            f"{MAX_PATH_BYTES} characters."
        )
    _make_private(folder)
    program = find_program(but=folder / LAUNCHER)
    if program is None:
        raise CommandError("HAProxy was not found: install ray[serve] on Linux, or haproxy.")
    limits = proxy_limits_of(Settings.load())
    launcher = write_launcher(folder, program, ProxyOptions(bounds=limits))
    if launcher is None:
        raise CommandError(f"Programs cannot be executed in {folder}: choose another folder.")
    out.print(str(launcher), soft_wrap=True)


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise CommandError(f"{folder} is not a folder that you own: choose another one.")
        folder.chmod(0o700)
    except OSError as error:
        raise CommandError(f"Cannot create {folder}: {error.strerror}.") from error
