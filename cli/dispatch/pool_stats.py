"""`muster pools stats`: what pools deliver, once or live."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from cli.shell.context import CommandContext
from cli.shell.errors import CommandError
from cli.shell.output import (
    Document,
    RightAligned,
    columns,
    dim,
    milliseconds,
    number,
    percent,
    styled,
    table,
)
from cli.shell.watching import WatchOptions, show_or_watch

PATH = "/monitoring/pool-stats"
STATUS = styled({"ACTIVE": "green", "SUSPENDED": "yellow", "ARCHIVED": "dim"})


@RightAligned
def rate(value: int | None) -> str:
    """Show deliveries per minute."""
    return "no limit" if value is None else f"{value:,}"


def _status(pool: Document) -> str | Text:
    return STATUS(pool.get("status")) if pool.get("alive") else Text("not running", "bold red")


@RightAligned
def _busy(pool: Document) -> str:
    return f"{number(pool.get('activeWorkers'))} of {number(pool.get('maxConcurrency'))}"


@RightAligned
def _failed(count: int | None) -> Text:
    return Text(f"{count or 0:,}", style="red" if count else "")


@RightAligned
def _groups(pool: Document) -> Text:
    groups, blocked = Text(str(number(pool.get("groups")))), pool.get("blockedGroups")
    return groups.append(f" ({blocked:,} blocked)", style="bold red") if blocked else groups


STATS = columns(
    ("pool", "poolCode"),
    ("status", _status),
    ("under way", _busy),
    ("waiting", "queueSize", number),
    ("delivered", "totalSucceeded", number),
    ("failed", "totalFailed", _failed),
    ("retried", "totalRetried", number),
    ("deferred", "totalDeferred", number),
    ("success 5 min", "successRate5min", percent),
    ("per minute", "rateLimitPerMinute", rate),
    ("groups", _groups),
    ("average", "averageProcessingTimeMs", milliseconds),
)


async def stats(
    shell: CommandContext,
    options: WatchOptions,
    codes: Annotated[
        list[str] | None, typer.Argument(help="Only these pools.", metavar="POOL")
    ] = None,
) -> None:
    """Show what pools have delivered, what waits, and what is blocked.

    For a shared pool the numbers are those of your tenant in the last half hour. With --watch and
    --json each poll is one line.
    """
    async with shell.connect() as client:

        async def read() -> Document:
            return select_pools(await client.get(PATH), codes)

        await show_or_watch(shell, options, read, _view)


def select_pools(found: Document, codes: list[str] | None) -> Document:
    """Keep the pools of these codes or ids.

    Raises:
        CommandError: One of them does not exist.
    """
    if not codes:
        return found
    by_name = {name: one for one in found["items"] for name in (one["poolId"], one["poolCode"])}
    missing = [code for code in codes if code not in by_name]
    if missing:
        raise CommandError(f"There is no pool {missing[0]}: see `muster pools list`.")
    return {**found, "items": [by_name[code] for code in dict.fromkeys(codes)]}


def _view(found: Document) -> RenderableType:
    return table(STATS, found["items"]) if found["items"] else dim("No pools.")
