"""`muster kafka status` and `muster kafka lag`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from cli.kafka.views import kafka_view, lag_view
from cli.shell.context import Shell, command, complain, out, print_json, print_json_line
from cli.shell.errors import CommandError
from cli.shell.polling import looks

PATH = "/api/kafka"
Kafka = Mapping[str, Any]
View = Callable[[Kafka], RenderableType]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")]
Every = Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")]


@command
async def status(shell: Shell, watch: Watch = False, every: Every = 1.0) -> None:
    """Show brokers, topics, consumers and the relay, as far as they concern your tenant.

    A topic is followed, missing (the cluster has none of that name yet), not_yours (a wait names
    it, but it belongs to another tenant), not_followed (only its dead letters are left) or unknown
    (the cluster was not reached). With --watch and --json each look is one line.
    """
    await _show(shell, kafka_view, every if watch else None)


@command
async def lag(shell: Shell, watch: Watch = False, every: Every = 1.0) -> None:
    """Show for each partition up to which offset its records are stored, and how many are not.

    With --watch and --json each look is one line.
    """
    await _show(shell, lag_view, every if watch else None, only="partitions")


async def _show(shell: Shell, view: View, every: float | None, only: str | None = None) -> None:
    async with shell.connect() as client:
        look = partial(client.get, PATH)
        first = await look()
        if every is None:
            print_json(_part(first, only)) if shell.as_json else out.print(view(first))
        elif shell.as_json:
            async for seen in looks(look, every):
                if isinstance(seen, CommandError):
                    complain(seen.sentence)
                else:
                    print_json_line(_part(seen, only))
        else:
            with Live(view(first), console=out, auto_refresh=False) as live:
                async for seen in looks(look, every):
                    live.update(_shown(seen, view), refresh=True)


def _shown(seen: Kafka | CommandError, view: View) -> RenderableType:
    return Text(seen.sentence, style="bold red") if isinstance(seen, CommandError) else view(seen)


def _part(kafka: Kafka, only: str | None) -> Any:
    return kafka if only is None else kafka.get(only) or []
