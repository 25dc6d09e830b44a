"""Gathers as Rich shows them."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.waits.tail import local_clock_time, one_line
from cli.waits.views import local_time, pairs_table, status_text

Document = Mapping[str, Any]
STATE_STYLES = {
    "calling": "dim",
    "accepted": "cyan",
    "ok": "green",
    "REJECTED": "yellow",
    "TIMEOUT": "red",
    "CONNECTION_CLOSED": "red",
    "ERROR": "red",
}
_COMPLETENESS_STYLES = {"full": "bold green", "partial": "bold yellow", "empty": "bold red"}
_WIDTH = max(map(len, STATE_STYLES))


def started_view(started: Document) -> RenderableType:
    """What a caller needs to come back to it."""
    return pairs_table(
        [
            ("gather", Text(str(started.get("id")))),
            ("asks", Text(", ".join(started.get("resources") or ()))),
            ("until", local_time(started.get("expiresAt"))),
        ]
    )


def event_line(kind: str, data: Document) -> Text:
    """One event of the stream as a line: when, how it stands, who, and what came."""
    line = Text(f"{local_clock_time(data.get('at'))}  ", style="dim")
    if kind == "summary":
        completeness = str(data.get("completeness"))
        line.append(f"{data.get('status')}  ", style=_COMPLETENESS_STYLES.get(completeness, ""))
        return line.append(counts_in_words(data))
    status = str(data.get("status"))
    line.append(f"{status:<{_WIDTH}}  ", style=STATE_STYLES.get(status, ""))
    line.append(str(data.get("source")))
    if data.get("detail"):
        line.append(f"  {data['detail']}")
    if data.get("data") is not None:
        line.append(f"  {one_line(data['data'])}", style="dim")
    return line


def gather_view(gather: Document) -> RenderableType:
    """One gather with those it asked."""
    head = pairs_table(
        [
            ("gather", Text(str(gather.get("id")))),
            ("status", status_text(gather.get("status"))),
            ("answers", Text(counts_in_words(gather))),
            ("started", local_time(gather.get("createdAt"))),
            ("until", "" if gather.get("endedAt") else local_time(gather.get("expiresAt"))),
            ("ended", local_time(gather.get("endedAt"))),
            ("context", Text(one_line(gather["context"]) if gather.get("context") else "")),
        ]
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("resource", "state", "when", "detail", "data"):
        table.add_column(title, overflow="fold")
    for name, resource in (gather.get("resources") or {}).items():
        state = str(resource.get("state"))
        data = resource.get("data")
        table.add_row(
            Text(name),
            Text(state, style=STATE_STYLES.get(state, "")),
            local_clock_time(resource["at"]) if resource.get("at") else "",
            Text(str(resource.get("detail") or "")),
            Text("" if data is None else one_line(data)),
        )
    return Group(head, Text(""), table)


def counts_in_words(gather: Document) -> str:
    """How many answered, in words."""
    answered = f"{gather.get('respondents')} of {gather.get('expected')} answered"
    errors = gather.get("errors")
    told = [answered, f"{errors} failed" if errors else "", str(gather.get("completeness") or "")]
    return ", ".join(part for part in told if part)
