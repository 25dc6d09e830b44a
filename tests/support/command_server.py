"""The `muster` command without its imports: a warm process forks for each command that is run.

A command is a process of its own as if a shell had started it, with its own arguments, environment,
folder, streams and exit code. What Python takes to import everything is spent once a session.
"""

import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module
from typing import Any

# What every command has, also while it is imported: no terminal whose width or colours matter.
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1"}
_MAX_REQUEST = 200_000
# Not with the commands, but when they first call or print.
_IMPORTED_LATE = ("anyio._backends._asyncio", "httpcore", "typer.rich_utils")


class CommandServer:
    """The warm process, as the process of the tests sees it."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=os.environ | PLAIN,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def run(
        self, arguments: tuple[str, ...], env: dict[str, str], within: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, as `subprocess.run` does."""
        request = json.dumps({"arguments": arguments, "env": env, "cwd": os.getcwd()}).encode()
        ours, theirs = socket.socketpair()
        with ours, tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            with theirs:
                files = [0, stdout.fileno(), stderr.fileno(), theirs.fileno()]
                socket.send_fds(self._control, [request], files)
            with ours.makefile() as report:
                pid = int(report.readline())
                ours.settimeout(within)
                try:
                    code = int(report.readline())
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(arguments, within) from None
            for file in (stdout, stderr):
                file.seek(0)
            return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@cache
def command_server() -> CommandServer:
    """Start it when it is first needed."""
    return CommandServer()


def pytest_unconfigure() -> None:
    if command_server.cache_info().currsize:
        command_server().close()


def _serve(control: socket.socket) -> None:
    """Take requests for as long as there is anybody to send them; return in each command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, files, _, _ = socket.recv_fds(control, _MAX_REQUEST, 4)
        if not request:
            sys.exit()
        if not os.fork():
            control.close()
            return _become(json.loads(request), files)
        for file in files:
            os.close(file)
        while _reap():
            pass


def _become(request: dict[str, Any], files: list[int]) -> None:
    """Be the process of the command; the one it is forked from tells how it ends."""
    with socket.socket(fileno=files.pop()) as report:
        if pid := os.fork():
            report.sendall(b"%d\n" % pid)
            _, status = os.waitpid(pid, 0)
            report.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
    for stream, file in enumerate(files):
        os.dup2(file, stream)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]


def _reap() -> bool:
    """Take note of a command that has ended."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def _warm_up() -> None:
    from cli.commands import COMMANDS

    for name in _IMPORTED_LATE:
        import_module(name)
    for command in COMMANDS:
        command.load()
    gc.freeze()


if __name__ == "__main__":
    _warm_up()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("cli.main", run_name="__main__", alter_sys=True)
