"""`muster pools stats`: how pools fare, once or live."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from cli.dispatch.pool_views import stats_view
from cli.shell.context import Shell, command, complain, out, print_json, print_json_line
from cli.shell.errors import CommandError
from cli.shell.polling import looks

PATH = "/monitoring/pool-stats"
Stats = Mapping[str, Any]


@command
async def stats(
    shell: Shell,
    codes: Annotated[
        list[str] | None, typer.Argument(help="Only these pools.", metavar="POOL")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Show what pools have delivered, what waits, and what is blocked.

    Of a shared pool the numbers are your own of the last half hour. With --watch and --json each
    look is one line.
    """
    async with shell.connect() as client:
        look = partial(client.get, PATH)
        first = only(await look(), codes)
        if not watch:
            print_json(first) if shell.as_json else out.print(stats_view(first["items"]))
        elif shell.as_json:
            async for seen in looks(look, every):
                if isinstance(seen, CommandError):
                    complain(seen.sentence)
                else:
                    print_json_line(only(seen, codes))
        else:
            with Live(stats_view(first["items"]), console=out, auto_refresh=False) as live:
                async for seen in looks(look, every):
                    live.update(_shown(seen, codes), refresh=True)


def only(found: Stats, codes: list[str] | None) -> Stats:
    """Those pools that are meant.

    Raises:
        CommandError: One of them is not there.
    """
    if not codes:
        return found
    by_name = {name: one for one in found["items"] for name in (one["poolId"], one["poolCode"])}
    missing = [code for code in codes if code not in by_name]
    if missing:
        raise CommandError(f"There is no pool {missing[0]}: see `muster pools list`.")
    return {**found, "items": [by_name[code] for code in dict.fromkeys(codes)]}


def _shown(seen: Stats | CommandError, codes: list[str] | None) -> RenderableType:
    if isinstance(seen, CommandError):
        return Text(seen.sentence, style="bold red")
    return stats_view(only(seen, codes)["items"])
