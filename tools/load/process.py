"""Runs a load in a process of its own: a busy generator must not disturb what it measures.

The plan goes to the process's stdin and the report comes back on its stdout, in msgpack.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import uvloop

from cli.shell.errors import CommandError

PlanType = TypeVar("PlanType", bound=msgspec.Struct)
ReportType = TypeVar("ReportType", bound=msgspec.Struct)


async def run_in_process(
    module: str, plan: msgspec.Struct, report: type[ReportType], within: float
) -> ReportType:
    """Run `python -m MODULE` with a plan and return its report."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=pipe, stdout=pipe
    )
    try:
        async with asyncio.timeout(within):
            output, _ = await process.communicate(msgspec.msgpack.encode(plan))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise CommandError(f"{module} ended with exit code {process.returncode}: see its error.")
    return msgspec.msgpack.decode(output, type=report)


def serve_plan(plan: type[PlanType], run: Callable[[PlanType], Coroutine[Any, Any, Any]]) -> None:
    """Be that process: read the plan, run it, write the report."""
    report = uvloop.run(run(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=plan)))
    # Not `sys.stdout`: with PYTHONUNBUFFERED it may write only a part, without an error.
    with open(1, "wb", closefd=False) as output:
        output.write(msgspec.msgpack.encode(report))
