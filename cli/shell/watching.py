"""A state that is shown once, or polled until Ctrl-C."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from cli.shell.client import UnreachableError
from cli.shell.context import CommandContext, out, print_error, print_json_line
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
    """Show what `read` returns: once, live, or with --json as one line for each poll.

    While it is watched an error is shown too, so that a restart can be watched.
    """
    first = await read()
    if not options.watch:
        shell.print(document(first), view(first))
        return
    screen = Live(view(first), console=out, auto_refresh=False)
    with nullcontext() if shell.as_json else screen as live:
        while True:
            await asyncio.sleep(options.every)
            try:
                latest = await read()
            except (UnreachableError, ProblemResponseError) as error:
                if live:
                    live.update(Text(error.sentence, style="bold red"), refresh=True)
                else:
                    print_error(error.sentence)
                continue
            if live:
                live.update(view(latest), refresh=True)
            else:
                print_json_line(document(latest))
