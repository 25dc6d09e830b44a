"""Starts a host in the background: in a session of its own, with its output in a file."""

import os
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from host.errors import HostError
from host.instance import HostInstance, HostStage, already_running_error, is_locked, read_instance
from host.paths import InstancePaths, instance_paths, prepare_data_dir
from host.start_deadline import MAX_SECONDS_WITHOUT_PROGRESS, StartDeadline, progress_marks

LINES_SHOWN = 15
STOP_WITHIN = 15.0


def spawn_detached(
    command: Sequence[str], data_dir: Path, *, quiet: float = MAX_SECONDS_WITHOUT_PROGRESS + 30.0
) -> HostInstance:
    """Start `command` in the background and return once its host reports that it is up.

    Each step of the start may take `quiet` seconds: a little more than the host allows itself,
    since the host reports the better reason.
    """
    places = instance_paths(data_dir)
    prepare_data_dir(places)
    if is_locked(places):
        raise already_running_error(places)
    pid = spawn(command, places.log, os.environ)
    try:
        return _wait_until_up(places, pid, quiet)
    except BaseException:
        _give_up(pid)
        raise


def last_lines(path: Path, lines: int = LINES_SHOWN) -> str:
    try:
        with path.open(errors="replace") as file:
            return "".join(deque(file, maxlen=lines)).rstrip()
    except FileNotFoundError:
        return ""


def spawn(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
    """Start `command` in a new session, its output in a fresh `log`; return its pid."""
    # Not subprocess.Popen, which warns about a child that outlives us.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    return os.posix_spawnp(
        command[0],
        list(command),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _wait_until_up(places: InstancePaths, pid: int, quiet: float) -> HostInstance:
    deadline = StartDeadline(partial(progress_marks, places), quiet=quiet)
    while (instance := _up(places, pid)) is None:
        if has_ended(pid):
            raise HostError(f"Muster did not start.\n{last_lines(places.log)}")
        if deadline.has_passed():
            raise HostError(
                f"Muster was not up after {deadline.waited:.0f} s.\n{last_lines(places.log)}"
            )
        time.sleep(0.1)
    return instance


def _up(places: InstancePaths, pid: int) -> HostInstance | None:
    instance = read_instance(places)
    ours = instance is not None and instance.pid == pid and instance.stage is HostStage.UP
    return instance if ours else None


def _give_up(pid: int) -> None:
    if has_ended(pid):
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN
    while not has_ended(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def has_ended(pid: int) -> bool:
    """Return True if a child of this process has ended, and reap it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # reaped already
