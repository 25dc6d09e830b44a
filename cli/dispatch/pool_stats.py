"""`muster pools stats`: what pools deliver, once or live."""

from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext
from cli.shell.errors import CommandError
from cli.shell.options import argument
from cli.shell.output import columns, table_or
from cli.shell.watching import WatchOptions, show_or_watch

PATH = "/monitoring/pool-stats"
STATUS = fmt.styled({"ACTIVE": "green", "SUSPENDED": "yellow", "ARCHIVED": "dim"})


@fmt.RightAligned
def rate(value: int | None) -> str:
    """Show deliveries per minute."""
    return "no limit" if value is None else f"{value:,}"


def _status(pool: Document) -> str | Text:
    return STATUS(pool.get("status")) if pool.get("alive") else Text("not running", "bold red")


@fmt.RightAligned
def _busy(pool: Document) -> str:
    return f"{fmt.number(pool.get('activeWorkers'))} of {fmt.number(pool.get('maxConcurrency'))}"


@fmt.RightAligned
def _failed(count: int | None) -> Text:
    return Text(f"{count or 0:,}", style="red" if count else "")


@fmt.RightAligned
def _groups(pool: Document) -> Text:
    groups, blocked = Text(str(fmt.number(pool.get("groups")))), pool.get("blockedGroups")
    return groups.append(f" ({blocked:,} blocked)", style="bold red") if blocked else groups


STATS = columns(
    ("pool", "poolCode"),
    ("status", _status),
    ("under way", _busy),
    ("waiting", "queueSize", fmt.number),
    ("delivered", "totalSucceeded", fmt.number),
    ("failed", "totalFailed", _failed),
    ("retried", "totalRetried", fmt.number),
    ("deferred", "totalDeferred", fmt.number),
    ("success 5 min", "successRate5min", fmt.percent),
    ("per minute", "rateLimitPerMinute", rate),
    ("groups", _groups),
    ("average", "averageProcessingTimeMs", fmt.milliseconds),
)


async def stats(
    shell: CommandContext,
    options: WatchOptions,
    codes: list[str] | None = argument("Only these pools.", default=None, metavar="POOL"),
) -> None:
    """Show what pools have delivered, what waits, and what is blocked.

    For a shared pool the numbers are those of your tenant in the last half hour. With --watch and
    --json each poll is one line.
    """
    async with shell.connect() as client:

        async def read() -> Document:
            return select_pools(await client.get(PATH), codes)

        await show_or_watch(
            shell, options, read, lambda found: table_or(STATS, found["items"], "No pools.")
        )


def select_pools(found: Document, codes: list[str] | None) -> Document:
    """Keep the pools of these codes or ids, all of which have to exist."""
    if not codes:
        return found
    by_name = {name: one for one in found["items"] for name in (one["poolId"], one["poolCode"])}
    missing = [code for code in codes if code not in by_name]
    if missing:
        raise CommandError(f"There is no pool {missing[0]}: see `muster pools list`.")
    return {**found, "items": [by_name[code] for code in dict.fromkeys(codes)]}
