"""Runs a load in a process of its own: a busy generator must not disturb what it measures.

The plan goes to the process's stdin, its size first. The process answers with a line when it has
begun, and with its report at its end, which the end of stdin asks for. Both are msgpack.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar, cast

import msgspec
import uvloop

from cli.shell.errors import CommandError

PlanType = TypeVar("PlanType", bound=msgspec.Struct)
ReportType = TypeVar("ReportType", bound=msgspec.Struct)
_SIZE_BYTES = 8
_BEGUN = b"\n"
_BEGIN_TIMEOUT, _END_TIMEOUT = 60.0, 10.0


@contextlib.asynccontextmanager
async def load_process(
    module: str, plan: msgspec.Struct, report: type[ReportType], within: float = _END_TIMEOUT
) -> AsyncIterator[list[ReportType]]:
    """Run `python -m MODULE` with a plan until the block ends; then the list has its report."""
    pipe, content = asyncio.subprocess.PIPE, msgspec.msgpack.encode(plan)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=pipe, stdout=pipe
    )
    stdin = cast("asyncio.StreamWriter", process.stdin)
    stdout = cast("asyncio.StreamReader", process.stdout)
    reports: list[ReportType] = []
    try:
        stdin.write(len(content).to_bytes(_SIZE_BYTES) + content)
        async with asyncio.timeout(_BEGIN_TIMEOUT):
            has_begun = await stdout.read(len(_BEGUN))
        if has_begun:
            yield reports
        stdin.close()
        async with asyncio.timeout(within):
            output = await stdout.read()
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code or not has_begun:
        raise CommandError(f"{module} ended with exit code {code}: see its error.")
    reports.append(msgspec.msgpack.decode(output, type=report))


async def run_in_process(
    module: str, plan: msgspec.Struct, report: type[ReportType], within: float
) -> ReportType:
    """Run `python -m MODULE` with a plan to its end and return its report."""
    async with load_process(module, plan, report, within) as reports:
        pass
    return reports[0]


def serve_plan(
    plan: type[PlanType],
    run: Callable[[PlanType], Coroutine[Any, Any, Any]],
    *,
    announces_itself: bool = False,
) -> None:
    """Be that process: read the plan, run it, write the report."""
    size = int.from_bytes(sys.stdin.buffer.read(_SIZE_BYTES))
    content = sys.stdin.buffer.read(size)
    if not announces_itself:
        _write(_BEGUN)
    _write(msgspec.msgpack.encode(uvloop.run(run(msgspec.msgpack.decode(content, type=plan)))))


async def announce_and_wait() -> None:
    """Be a load without an end: say that it has begun, and wait until it is asked to stop."""
    _write(_BEGUN)
    await asyncio.to_thread(sys.stdin.buffer.read)


def _write(content: bytes) -> None:
    # Not `sys.stdout`: with PYTHONUNBUFFERED it may write only a part, without an error.
    with open(1, "wb", closefd=False) as output:
        output.write(content)
