"""`muster status`: how the instance is doing."""

import asyncio
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.live import Live
from rich.status import Status
from rich.text import Text

from cli.operations.status_view import status_view
from cli.shell.client import Client
from cli.shell.context import (
    CommandContext,
    command,
    err,
    out,
    print_error,
    print_json,
    print_json_line,
)
from cli.shell.errors import CommandError
from cli.shell.polling import looks
from cli.shell.rates import Sample, rates_by_actor, total_rates

_MAX_SAMPLES = 3


@command
async def status(
    shell: CommandContext,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Show actors, hot correlations, flush rate and backlog.

    Rates are what happened between two looks. With --watch and --json each look is one line.
    """
    async with shell.connect() as client:
        if watch and shell.as_json:
            await _watch_as_lines(client, every)
        elif watch:
            await _watch_live(client, every)
        else:
            with Status("Looking twice …", console=err):
                before, after = await _read_two_samples(client, every)
            if shell.as_json:
                print_json(_document(before, after))
            else:
                out.print(status_view(client.instance.url, after, rates_by_actor(before, after)))


async def _watch_live(client: Client, every: float) -> None:
    before = await _read_sample(client)
    with Live(Text("Looking …"), console=out, auto_refresh=False) as live:
        async for after in looks(partial(_read_sample, client), every):
            if isinstance(after, CommandError):
                live.update(Text(after.sentence, style="bold red"), refresh=True)
                continue
            rates = rates_by_actor(before, after)
            live.update(status_view(client.instance.url, after, rates), refresh=True)
            before = after if rates else before


async def _watch_as_lines(client: Client, every: float) -> None:
    before = await _read_sample(client)
    async for after in looks(partial(_read_sample, client), every):
        if isinstance(after, CommandError):
            print_error(after.sentence)
            continue
        print_json_line(_document(before, after))
        before = after


async def _read_two_samples(client: Client, every: float) -> tuple[Sample, Sample]:
    """Two samples between which the actors have spoken, if they speak at all."""
    before = after = await _read_sample(client)
    for _ in range(_MAX_SAMPLES):
        await asyncio.sleep(every)
        after = await _read_sample(client)
        if rates_by_actor(before, after):
            break
    return before, after


async def _read_sample(client: Client) -> Sample:
    return Sample(await client.get("/api/status"))


def _document(before: Sample, after: Sample) -> dict[str, object]:
    rates = rates_by_actor(before, after)
    by_actor = {name: asdict(rate) for name, rate in rates.items()}
    return {**after.report, "rates": {"total": asdict(total_rates(rates)), "actors": by_actor}}
