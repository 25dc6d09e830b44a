"""Looking at an instance again and again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from cli.shell.client import UnreachableError
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemResponseError

PolledT = TypeVar("PolledT")


async def looks(
    read: Callable[[], Awaitable[PolledT]], every: float
) -> AsyncIterator[PolledT | CommandError]:
    """What is seen, without end; an instance that restarts is just what one wants to watch."""
    while True:
        await asyncio.sleep(every)
        try:
            yield await read()
        except (UnreachableError, ProblemResponseError) as error:
            yield error
