"""Resources as Rich shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cli.shell.durations import format_duration
from cli.waits.views import local_time, pairs_table

Document = Mapping[str, Any]


def resources_view(items: Sequence[Document]) -> RenderableType:
    """One line for each resource."""
    if not items:
        return Text("No resources.", style="dim")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("name", "url", "answers", "shows", "at once", "a minute"):
        table.add_column(title, overflow="fold")
    for item in items:
        table.add_row(
            Text(str(item.get("name"))),
            Text(str(item.get("url"))),
            _answers(item),
            _auth(item),
            str(item.get("concurrency", "")),
            _rate(item),
        )
    return table


def resource_view(resource: Document) -> RenderableType:
    """One resource with everything but its secrets."""
    headers = [f"{name}: {value}" for name, value in (resource.get("headers") or {}).items()]
    return pairs_table(
        [
            ("resource", Text(str(resource.get("name")))),
            ("url", Text(f"{resource.get('method', 'POST')} {resource.get('url')}")),
            ("answers", _answers(resource)),
            ("headers", Text("\n".join(headers))),
            ("shows", _auth(resource)),
            ("connect within", _seconds(resource.get("connectTimeoutMs"))),
            ("answer within", _seconds(resource.get("readTimeoutMs"))),
            ("at once", str(resource.get("concurrency", ""))),
            ("a minute", _rate(resource)),
            ("registered", local_time(resource.get("createdAt"))),
            ("changed", local_time(resource.get("updatedAt"))),
        ]
    )


def _answers(resource: Document) -> str:
    return "directly" if resource.get("reply") == "direct" else "by callback"


def _auth(resource: Document) -> str:
    return str((resource.get("auth") or {}).get("type", ""))


def _rate(resource: Document) -> str:
    rate = resource.get("ratePerMinute")
    return "" if rate is None else f"{rate:,}"


def _seconds(milliseconds: Any) -> str:
    return "" if milliseconds is None else format_duration(milliseconds / 1000)
