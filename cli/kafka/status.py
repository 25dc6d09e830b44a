"""`muster kafka status` and `muster kafka lag`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from cli.kafka.views import kafka_view, lag_view
from cli.shell.context import CommandContext, command, out, print_error, print_json, print_json_line
from cli.shell.errors import CommandError
from cli.shell.polling import looks

PATH = "/api/kafka"
KafkaDocument = Mapping[str, Any]
KafkaRenderer = Callable[[KafkaDocument], RenderableType]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")]
IntervalOption = Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")]


@command
async def status(
    shell: CommandContext, watch: WatchOption = False, every: IntervalOption = 1.0
) -> None:
    """Show brokers, topics, consumers and the relay, as far as they concern your tenant.

    A topic is followed, missing (the cluster has none of that name yet), not_yours (a wait names
    it, but it belongs to another tenant), not_followed (only its dead letters are left) or unknown
    (the cluster was not reached). With --watch and --json each look is one line.
    """
    await _show(shell, kafka_view, every if watch else None)


@command
async def lag(
    shell: CommandContext, watch: WatchOption = False, every: IntervalOption = 1.0
) -> None:
    """Show for each partition up to which offset its records are stored, and how many are not.

    With --watch and --json each look is one line.
    """
    await _show(shell, lag_view, every if watch else None, only="partitions")


async def _show(
    shell: CommandContext, view: KafkaRenderer, every: float | None, only: str | None = None
) -> None:
    async with shell.connect() as client:
        read = partial(client.get, PATH)
        first = await read()
        if every is None:
            print_json(_part(first, only)) if shell.as_json else out.print(view(first))
        elif shell.as_json:
            async for latest in looks(read, every):
                if isinstance(latest, CommandError):
                    print_error(latest.sentence)
                else:
                    print_json_line(_part(latest, only))
        else:
            with Live(view(first), console=out, auto_refresh=False) as live:
                async for latest in looks(read, every):
                    live.update(_shown(latest, view), refresh=True)


def _shown(latest: KafkaDocument | CommandError, view: KafkaRenderer) -> RenderableType:
    return (
        Text(latest.sentence, style="bold red")
        if isinstance(latest, CommandError)
        else view(latest)
    )


def _part(kafka: KafkaDocument, only: str | None) -> Any:
    return kafka if only is None else kafka.get(only) or []
