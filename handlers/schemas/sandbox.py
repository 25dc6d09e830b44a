"""A separate process that compiles schemas and checks payloads. Calls block: use a thread."""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from handlers.schemas.sandbox_protocol import (
    LENGTH_BYTES,
    SandboxTask,
    TaskRequest,
    TaskResult,
    decode_result,
    encode,
    frame,
)

MAX_ANSWER_BYTES = 4 << 20

_ROOT = Path(__file__).resolve().parents[2]
_COMMAND = (sys.executable, "-s", "-P", "-m", "handlers.schemas.sandbox_process")


class SandboxDiedError(Exception):
    """The task broke the process, most likely by exhausting its memory."""


class CpuTimeExceededError(Exception):
    """The task exceeded its processor time."""


class SchemaSandbox:
    """One process. It is of no more use once a call has raised."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="muster-sandbox-")
        self._pipe, theirs = socket.socketpair()
        environment = {
            "PYTHONPATH": str(_ROOT),
            "TMPDIR": self._folder.name,
            "GRPC_PYTHON_DISABLE_DYNAMIC_STUBS": "1",
        }
        with theirs:
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                cwd=self._folder.name,
                env=environment,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, task: SandboxTask, seconds: float, timeout: float) -> TaskResult:
        """Run a task with a limit of processor time in seconds.

        On a busy machine that may take much longer by the clock.

        Raises:
            CpuTimeExceededError: The task took more.
            SandboxDiedError: The task broke the process.
            TimeoutError: The machine is too busy.
        """
        deadline = time.monotonic() + timeout
        try:
            self._pipe.settimeout(timeout)
            self._pipe.sendall(frame(encode(TaskRequest(task, seconds))))
            size = int.from_bytes(self._receive(LENGTH_BYTES, deadline), "big")
            if size > MAX_ANSWER_BYTES:
                raise SandboxDiedError("it answered more than it may")
            return decode_result(self._receive(size, deadline))
        except (BrokenPipeError, ConnectionResetError, EOFError):
            raise self._cause() from None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        with contextlib.suppress(OSError):
            self._folder.cleanup()

    def _receive(self, size: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while size:
            self._pipe.settimeout(max(0.001, deadline - time.monotonic()))
            part = self._pipe.recv(min(size, 1 << 16))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _cause(self) -> Exception:
        code = self._process.wait()
        if code == -signal.SIGPROF:
            return CpuTimeExceededError("more processor time than it was given")
        return SandboxDiedError(signal.strsignal(-code) if code < 0 else f"exit code {code}")
