"""A state that is shown once, or polled until Ctrl-C."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from cli.shell.client import UnreachableError
from cli.shell.context import CommandContext, out, print_error, print_json_line
from cli.shell.errors import CommandError
from cli.shell.options import option
from cli.shell.problems import ProblemResponseError

PolledT = TypeVar("PolledT")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    watch: bool = option("Refresh until Ctrl-C.", "--watch", "-w", default=False)
    every: float = option("Seconds between two polls.", default=1.0, min=0.2, max=60)


async def show_or_watch(
    shell: CommandContext,
    options: WatchOptions,
    read: Callable[[], Awaitable[PolledT]],
    view: Callable[[PolledT], RenderableType],
    document: Callable[[PolledT], Any] = lambda state: state,
) -> None:
    """Show what `read` returns: once, live, or with --json as one line for each poll."""
    first = await read()
    if not options.watch:
        shell.print(document(first), view(first))
    elif shell.as_json:
        async for latest in poll(read, options.every):
            if isinstance(latest, CommandError):
                print_error(latest.sentence)
            else:
                print_json_line(document(latest))
    else:
        with Live(view(first), console=out, auto_refresh=False) as live:
            async for latest in poll(read, options.every):
                live.update(
                    Text(latest.sentence, style="bold red")
                    if isinstance(latest, CommandError)
                    else view(latest),
                    refresh=True,
                )


async def poll(
    read: Callable[[], Awaitable[PolledT]], every: float
) -> AsyncIterator[PolledT | CommandError]:
    """Read without end; an error is a result too, so that a restart can be watched."""
    while True:
        await asyncio.sleep(every)
        try:
            yield await read()
        except (UnreachableError, ProblemResponseError) as error:
            yield error
