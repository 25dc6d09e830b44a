"""Wait states as Rich shows them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

STATUS_STYLES = {
    "waiting": "cyan",
    "completed": "green",
    "timeout": "red",
    "failed": "red",
    "cancelled": "yellow",
}
OUTCOME_STYLES = {
    "pending": "cyan",
    "received": "green",
    "timed_out": "red",
    "failed": "red",
    "rejected": "red",
}


def local_time(moment: Any) -> str:
    """An RFC 3339 moment on the clock of this machine."""
    if not moment:
        return ""
    try:
        return datetime.fromisoformat(str(moment)).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return str(moment)


def pairs_table(rows: Sequence[tuple[str, RenderableType]]) -> Table:
    """Names and values, one per line; empty values are left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        if not isinstance(value, str | Text) or len(value):
            table.add_row(name, value)
    return table


def status_text(status: Any) -> Text:
    """A status in its colour."""
    return Text(str(status), style=STATUS_STYLES.get(str(status), ""))


def registration_view(registered: Mapping[str, Any]) -> RenderableType:
    """What a caller needs next, but for the callback URL: a table would break it in two."""
    return pairs_table(
        [
            ("execution", Text(registered["executionId"])),
            ("correlation", Text(registered["correlationId"])),
            ("status", status_text(registered["status"])),
            ("waits for", Text(", ".join(registered.get("enabledEvents") or ()))),
            ("expires", local_time(registered.get("expiresAt"))),
        ]
    )


def wait_view(wait: Mapping[str, Any]) -> RenderableType:
    """One wait state with its events and, at the end, what it hands on."""
    strategy = f"{wait.get('aggregationStrategy')}, onTimeout {wait.get('onTimeout')}"
    head = pairs_table(
        [
            ("wait state", Text(str(wait["waitStateId"]))),
            ("node", Text(str(wait.get("nodeId") or ""))),
            ("status", status_text(wait["status"])),
            ("reason", Text(wait.get("reason") or "")),
            ("warning", Text(wait.get("warning") or "", style="yellow")),
            ("strategy", Text(strategy)),
            ("registered", local_time(wait.get("createdAt"))),
            ("expires", local_time(wait.get("expiresAt"))),
            ("ended", local_time(wait.get("endedAt"))),
            ("resumed", _resumed(wait)),
            ("version", str(wait.get("version", ""))),
        ]
    )
    parts: list[RenderableType] = [head, _events(wait.get("events") or {})]
    if wait.get("output") is not None:
        parts += [Text("output", style="dim"), Text(_pretty(wait["output"]))]
    return Group(*parts)


def waits_view(items: Sequence[Mapping[str, Any]]) -> RenderableType:
    """One line for each wait state."""
    if not items:
        return Text("No wait states.", style="dim")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("execution", "correlation", "status", "strategy", "has", "expires"):
        table.add_column(title, overflow="fold")
    for item in items:
        table.add_row(
            Text(str(item.get("executionId"))),
            Text(str(item.get("correlationId"))),
            status_text(item.get("status")),
            Text(str(item.get("aggregationStrategy", ""))),
            f"{len(item.get('receivedEvents') or ())} of {len(item.get('enabledEvents') or ())}",
            local_time(item.get("expiresAt")),
        )
    return table


def explanation_view(explanation: Mapping[str, Any]) -> RenderableType:
    """The summary, a sentence for each event, and what came near."""
    events = pairs_table(
        [(name, Text(text)) for name, text in (explanation.get("events") or {}).items()]
    )
    parts: list[RenderableType] = [Text(str(explanation["summary"]), style="bold"), events]
    misses = explanation.get("nearMisses") or ()
    if misses:
        parts.append(Text("Came near and did not count:", style="yellow"))
    for miss in misses:
        origin = f"{miss.get('source')} {miss.get('label')}"
        line = f"  {local_time(miss.get('at'))}  {origin} {miss.get('eventId')}: "
        parts.append(Text(line, style="dim").append(str(miss.get("sentence")), style="default"))
    return Group(*parts)


def _events(events: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("event", "outcome", "from", "required", "when", "data"):
        table.add_column(title, overflow="fold")
    for name, event in events.items():
        outcome = str(event.get("outcome"))
        table.add_row(
            Text(name),
            Text(outcome, style=OUTCOME_STYLES.get(outcome, "")),
            Text(" ".join(str(event[k]) for k in ("source", "label") if event.get(k))),
            "yes" if event.get("required") else "no",
            local_time(event.get("at")) or f"until {local_time(event.get('deadline'))}",
            Text(
                "" if event.get("data") is None else json.dumps(event["data"], ensure_ascii=False)
            ),
        )
    return table if table.row_count else Text("")


def _resumed(wait: Mapping[str, Any]) -> str:
    if not wait.get("resumedAt"):
        return ""
    return f"{local_time(wait['resumedAt'])} by {wait.get('resumedBy')}"


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
