"""Events as Rich shows them."""

import json
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cli.dispatch.job_views import jobs_view
from cli.shell.tables import Document, format_count, plain_table
from cli.waits.send import verdict_line
from cli.waits.views import local_time, pairs_table


def sent_view(reply: Document) -> RenderableType:
    """What became of an event: new or known, its deliveries, what did not fit, its wait."""
    event = reply["event"]
    line = Text(f"{event['id']}  ")
    if reply.get("duplicate"):
        line.append("known: sent before under the same id, so nothing new happens", style="yellow")
    else:
        jobs = reply.get("dispatchJobCount") or 0
        line.append("stored", style="green")
        line.append(f", {jobs} {'delivery' if jobs == 1 else 'deliveries'}", style="default")
    parts: list[RenderableType] = [line]
    for one in reply.get("warnings") or ():
        text = f"does not fit: data{one.get('path')}: {one.get('expected')}"
        parts.append(Text(text, style="yellow"))
    if reply.get("wait"):
        wait = dict(reply["wait"])
        parts.append(Text("wait: ", style="dim").append_text(verdict_line(wait)))
        if wait.get("retryable"):
            again = "its wait may take it if it is sent again under the same deduplication id"
            parts.append(Text(again, style="dim"))
    return Group(*parts)


def events_view(items: Sequence[Document]) -> RenderableType:
    """One line for each event."""
    if not items:
        return Text("No events.", style="dim")
    titles = ("id", "type", "source", "subject", "group", "when", "bytes")
    table = plain_table(*titles, right=(6,))
    for item in items:
        table.add_row(
            *(Text(str(item.get(name) or "")) for name in ("id", "type", "source", "subject")),
            Text(str(item.get("messageGroup") or "")),
            local_time(item.get("time")),
            format_count(item.get("dataSize")),
        )
    return table


def event_view(event: Document, jobs: Sequence[Document] | None) -> RenderableType:
    """One event with its data and its deliveries."""
    version = f"  {event['typeVersion']}" if event.get("typeVersion") else ""
    context = [f"{one['key']}={one['value']}" for one in event.get("contextData") or ()]
    extensions = [f"{name}={value}" for name, value in (event.get("extensions") or {}).items()]
    head = pairs_table(
        [
            ("event", Text(str(event.get("id")))),
            ("type", Text(f"{event.get('type')}{version}")),
            ("source", Text(str(event.get("source")))),
            ("subject", Text(str(event.get("subject") or ""))),
            ("when", local_time(event.get("time"))),
            ("came", local_time(event.get("createdAt"))),
            ("group", Text(str(event.get("messageGroup") or ""))),
            ("known by", Text(str(event.get("deduplicationId") or ""))),
            ("execution", Text(str(event.get("executionId") or ""))),
            ("correlation", Text(str(event.get("correlationId") or ""))),
            ("caused by", Text(str(event.get("causationId") or ""))),
            ("context", Text(", ".join(context))),
            ("further", Text(", ".join(extensions))),
            ("schema", Text(str(event.get("dataSchema") or ""))),
            ("data is", Text(str(event.get("dataContentType") or ""))),
        ]
    )
    parts: list[RenderableType] = [head, Text(""), _data(event)]
    if jobs is not None:
        parts += [Text(""), jobs_view(jobs) if jobs else Text("Nobody wants it.", style="dim")]
    return Group(*parts)


def _data(event: Document) -> Text:
    if "dataBase64" in event:
        return Text(f"{event['dataBase64']}  (base64)")
    if "data" not in event:
        return Text("It has no data.", style="dim")
    data = event["data"]
    is_text = isinstance(data, str)
    return Text(data if is_text else json.dumps(data, indent=2, ensure_ascii=False))
