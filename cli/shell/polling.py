"""Looking at an instance again and again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from cli.shell.client import UnreachableError
from cli.shell.errors import CommandError
from cli.shell.problems import ProblemError

Seen = TypeVar("Seen")


async def looks(
    look: Callable[[], Awaitable[Seen]], every: float
) -> AsyncIterator[Seen | CommandError]:
    """What is seen, without end; an instance that restarts is just what one wants to watch."""
    while True:
        await asyncio.sleep(every)
        try:
            yield await look()
        except (UnreachableError, ProblemError) as error:
            yield error
