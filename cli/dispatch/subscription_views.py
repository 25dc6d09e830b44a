"""Subscriptions as Rich shows them."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from cli.shell.durations import format_duration
from cli.shell.tables import Document, plain_table
from cli.waits.views import local_time, pairs_table

STATUS_STYLES = {"ACTIVE": "green", "PAUSED": "yellow"}


def subscriptions_view(items: Sequence[Document]) -> RenderableType:
    """One line for each subscription."""
    if not items:
        return Text("No subscriptions.", style="dim")
    table = plain_table("code", "takes", "to", "mode", "pool", "status")
    for item in items:
        table.add_row(
            Text(str(item.get("code"))),
            Text("\n".join(_bindings(item))),
            Text(str(item.get("target"))),
            str(item.get("mode")),
            Text(str(item.get("dispatchPoolCode"))),
            _status(item),
        )
    return table


def subscription_view(found: Document) -> RenderableType:
    """One subscription with everything but its secrets."""
    headers = [f"{name}: {value}" for name, value in (found.get("headers") or {}).items()]
    reason = found.get("statusReason")
    return pairs_table(
        [
            ("subscription", Text(str(found.get("code")))),
            ("name", Text(str(found.get("name")))),
            ("description", Text(str(found.get("description") or ""))),
            ("status", _status(found)),
            ("because", Text(str(reason or ""), style="yellow")),
            ("failing since", Text(local_time(found.get("failingSince")), style="red")),
            ("takes", Text("\n".join(_bindings(found)))),
            ("only if", Text(str(found.get("filter") or ""))),
            ("to", Text(str(found.get("target")))),
            ("headers", Text("\n".join(headers))),
            ("shows", str((found.get("auth") or {}).get("type", ""))),
            ("signed", str(found.get("signature"))),
            ("body", "the data alone" if found.get("dataOnly") else "an envelope"),
            ("mode", str(found.get("mode"))),
            ("pool", Text(str(found.get("dispatchPoolCode")))),
            ("sequence", str(found.get("sequence"))),
            ("attempts", str(found.get("maxRetries"))),
            ("an attempt takes", f"at most {format_duration(found.get('timeoutSeconds') or 0)}"),
            ("delay", _seconds(found.get("delaySeconds"))),
            ("not after", _seconds(found.get("maxAgeSeconds"))),
            ("id", Text(str(found.get("id")))),
            ("version", str(found.get("version", ""))),
            ("made", local_time(found.get("createdAt"))),
            ("changed", local_time(found.get("updatedAt"))),
        ]
    )


def _bindings(item: Document) -> list[str]:
    return [
        f"{one['eventTypeCode']}@{one['specVersion']}"
        if one.get("specVersion")
        else str(one["eventTypeCode"])
        for one in item.get("eventTypes") or ()
    ]


def _status(item: Document) -> Text:
    status = str(item.get("status"))
    return Text(status, style=STATUS_STYLES.get(status, ""))


def _seconds(value: int | None) -> str:
    return format_duration(value) if value else ""
