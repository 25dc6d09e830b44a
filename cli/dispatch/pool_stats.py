"""`muster pools stats`: how pools fare, once or live."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from cli.dispatch.pool_views import stats_view
from cli.shell.context import CommandContext, command, out, print_error, print_json, print_json_line
from cli.shell.errors import CommandError
from cli.shell.polling import looks

PATH = "/monitoring/pool-stats"
PoolStatsDocument = Mapping[str, Any]


@command
async def stats(
    shell: CommandContext,
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
        read = partial(client.get, PATH)
        first = select_pools(await read(), codes)
        if not watch:
            print_json(first) if shell.as_json else out.print(stats_view(first["items"]))
        elif shell.as_json:
            async for latest in looks(read, every):
                if isinstance(latest, CommandError):
                    print_error(latest.sentence)
                else:
                    print_json_line(select_pools(latest, codes))
        else:
            with Live(stats_view(first["items"]), console=out, auto_refresh=False) as live:
                async for latest in looks(read, every):
                    live.update(_shown(latest, codes), refresh=True)


def select_pools(found: PoolStatsDocument, codes: list[str] | None) -> PoolStatsDocument:
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


def _shown(latest: PoolStatsDocument | CommandError, codes: list[str] | None) -> RenderableType:
    if isinstance(latest, CommandError):
        return Text(latest.sentence, style="bold red")
    return stats_view(select_pools(latest, codes)["items"])
