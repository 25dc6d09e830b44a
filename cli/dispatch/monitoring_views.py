"""Warnings and targets as Rich shows them."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cli.shell.durations import format_duration
from cli.shell.tables import Document, format_count, plain_table
from cli.waits.views import local_time

SEVERITY_STYLES = {"INFO": "cyan", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}
BREAKER_STYLES = {"CLOSED": "green", "HALF_OPEN": "yellow", "OPEN": "bold red"}


def warnings_view(items: Sequence[Document]) -> RenderableType:
    """One line for each warning."""
    if not items:
        return Text("No warnings.", style="dim")
    titles = ("id", "severity", "category", "about", "times", "last", "what", "seen by")
    table = plain_table(*titles, right=(0, 4))
    for item in items:
        severity = str(item.get("severity"))
        table.add_row(
            str(item.get("id")),
            Text(severity, style=SEVERITY_STYLES.get(severity, "")),
            Text(str(item.get("category"))),
            Text(str(item.get("source"))),
            format_count(item.get("count")),
            local_time(item.get("timestamp")),
            Text(str(item.get("message"))),
            Text(str(item.get("acknowledgedBy") or "")),
        )
    return table


def breakers_view(items: Sequence[Document]) -> RenderableType:
    """One line for each target."""
    if not items:
        return Text("No targets.", style="dim")
    titles = ("target", "pool", "state", "answered", "failed", "held back", "failing", "tried in")
    table = plain_table(*titles, right=(3, 4, 5, 6, 7))
    for item in items:
        state = str(item.get("state"))
        left = item.get("openForSeconds") or 0
        table.add_row(
            Text(str(item.get("name"))),
            Text(str(item.get("poolCode"))),
            Text(state, style=BREAKER_STYLES.get(state, "")),
            format_count(item.get("successfulCalls")),
            format_count(item.get("failedCalls")),
            format_count(item.get("rejectedCalls")),
            f"{(item.get('failureRate') or 0) * 100:.0f} %",
            format_duration(left) if left else "",
        )
    return table
