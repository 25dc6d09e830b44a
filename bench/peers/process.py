"""A module that serves on a port, in a process of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil

from bench.wire import listening


@asynccontextmanager
async def serving(
    module: str, port: int, *words: str, **variables: str
) -> AsyncIterator[psutil.Process]:
    """`python -m MODULE PORT WORDS`, for as long as the context lasts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, str(port), *words, env=os.environ | variables
    )
    try:
        await listening(port)
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
