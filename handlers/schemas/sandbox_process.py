"""The program of the sandbox: a process that may break and can reach nothing worth breaking.

It has no environment, no open files but its pipe, and an empty folder. Its memory is limited once,
its processor time for each task: the kernel ends it where native code would never check a clock.
"""

import contextlib
import os
import resource
import signal
import sys
import time
from typing import BinaryIO

from msgspec.structs import replace

from handlers.schemas.dialects import LoadedSchemas, dialect_of
from handlers.schemas.interface import CompiledSchema, CompileResult
from handlers.schemas.sandbox_protocol import (
    LENGTH_BYTES,
    CheckTask,
    CompileTask,
    LoadTask,
    SandboxTask,
    TaskRequest,
    TaskResult,
    decode_request,
    encode,
    frame,
)

MEMORY = 512 << 20
FILE_SIZE = 8 << 20
FILES = 64
LOADED_LIMIT = 32

# A schema that needs more memory than this is never loaded in a process with an event loop.
LIGHT_SECONDS = 0.05
LIGHT_MEMORY = 8 << 20
LIGHT_FORM = 64 * 1024

_BOUNDS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_FSIZE, FILE_SIZE),
    (resource.RLIMIT_NOFILE, FILES),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NPROC, 0),
)


def run(task: SandboxTask, loaded: LoadedSchemas) -> TaskResult:
    match task:
        case CompileTask():
            return TaskResult(_compile(task))
        case LoadTask(compiled):
            loaded.load(compiled)
            return TaskResult()
        case CheckTask(key, payload, content_type):
            check = loaded.get(key)
            if check is None:
                return TaskResult(unknown=True)
            return TaskResult(mismatches=check(payload, content_type))


def _compile(task: CompileTask) -> CompileResult:
    began, size = time.process_time(), _peak()
    compiled = dialect_of(task.kind).compile(task.text)
    took, grew = time.process_time() - began, _peak() - size
    if isinstance(compiled, CompiledSchema) and (
        took > LIGHT_SECONDS or grew > LIGHT_MEMORY or len(compiled.form) > LIGHT_FORM
    ):
        return replace(compiled, weight=None)
    return compiled


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Work until the other end closes the pipe."""
    loaded = LoadedSchemas(LOADED_LIMIT)
    while length := incoming.read(LENGTH_BYTES):
        request: TaskRequest = decode_request(incoming.read(int.from_bytes(length, "big")))
        # The signal has no handler, so it ends the process, whatever runs.
        signal.setitimer(signal.ITIMER_PROF, request.seconds)
        answer = run(request.task, loaded)
        signal.setitimer(signal.ITIMER_PROF, 0)
        outgoing.write(frame(encode(answer)))
        outgoing.flush()


def main() -> None:
    """Limit this process, take the pipe for itself, and serve."""
    for bound, most in _BOUNDS:
        with contextlib.suppress(ValueError, OSError):  # not every system has every limit
            resource.setrlimit(bound, (most, most))
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    serve(incoming, outgoing)


if __name__ == "__main__":
    main()
