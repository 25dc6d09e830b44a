"""Pools as Rich shows them."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cli.shell.tables import Document, format_count, plain_table
from cli.waits.views import local_time, pairs_table

STATUS_STYLES = {"ACTIVE": "green", "SUSPENDED": "yellow", "ARCHIVED": "dim"}
_UNLIMITED = "no limit"


def pools_view(items: Sequence[Document]) -> RenderableType:
    """One line for each pool."""
    if not items:
        return Text("No pools.", style="dim")
    table = plain_table("code", "name", "status", "a minute", "at once", "whose", right=(3, 4))
    for item in items:
        table.add_row(
            Text(str(item.get("code"))),
            Text(str(item.get("name"))),
            _status(item),
            _rate(item.get("rateLimit")),
            format_count(item.get("concurrency")),
            "everybody's" if item.get("anchorLevel") else "yours",
        )
    return table


def pool_view(pool: Document) -> RenderableType:
    """One pool."""
    return pairs_table(
        [
            ("pool", Text(str(pool.get("code")))),
            ("name", Text(str(pool.get("name")))),
            ("description", Text(str(pool.get("description") or ""))),
            ("status", _status(pool)),
            ("a minute", _rate(pool.get("rateLimit"))),
            ("at once", format_count(pool.get("concurrency"))),
            ("whose", "everybody's" if pool.get("anchorLevel") else "yours"),
            ("id", Text(str(pool.get("id")))),
            ("made", local_time(pool.get("createdAt"))),
            ("changed", local_time(pool.get("updatedAt"))),
        ]
    )


def stats_view(items: Sequence[Document]) -> RenderableType:
    """One line for each pool, with what it does and has done."""
    if not items:
        return Text("No pools.", style="dim")
    titles = ("pool", "status", "under way", "waiting", "delivered", "failed", "again", "deferred")
    table = plain_table(*titles, "5 min", "a minute", "groups", "took", right=range(2, 12))
    for item in items:
        failed, blocked = item.get("totalFailed") or 0, item.get("blockedGroups") or 0
        took = item.get("averageProcessingTimeMs")
        groups = Text(format_count(item.get("groups")))
        if blocked:
            groups.append(f" ({blocked:,} blocked)", style="bold red")
        table.add_row(
            Text(str(item.get("poolCode"))),
            _status(item) if item.get("alive") else Text("away", style="bold red"),
            f"{format_count(item.get('activeWorkers'))} of "
            f"{format_count(item.get('maxConcurrency'))}",
            format_count(item.get("queueSize")),
            format_count(item.get("totalSucceeded")),
            Text(format_count(failed), style="red" if failed else ""),
            format_count(item.get("totalRetried")),
            format_count(item.get("totalDeferred")),
            f"{(item.get('successRate5min') or 0) * 100:.0f} %",
            _rate(item.get("rateLimitPerMinute")),
            groups,
            "" if took is None else f"{took:.0f} ms",
        )
    return table


def _status(item: Document) -> Text:
    status = str(item.get("status"))
    return Text(status, style=STATUS_STYLES.get(status, ""))


def _rate(rate: int | None) -> str:
    return _UNLIMITED if rate is None else format_count(rate)
