"""Deliveries as Rich shows them."""

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell.durations import format_duration
from cli.shell.tables import Document, plain_table
from cli.waits.tail import local_clock_time
from cli.waits.views import local_time, pairs_table

STATUS_STYLES = {
    "PENDING": "cyan",
    "QUEUED": "cyan",
    "IN_PROGRESS": "bold cyan",
    "COMPLETED": "green",
    "ERROR": "red",
    "CANCELLED": "yellow",
    "EXPIRED": "yellow",
}
RESULT_STYLES = {"SUCCESS": "green", "DEFERRED": "yellow"}
REFUSAL_REASONS = {
    "unknown": "there is no such job",
    "in_progress": "it is being delivered",
    "not_failed": "it has not failed",
    "ended": "it has ended already",
    "pool_archived": "its pool is archived",
}
_ERROR_WIDTH = 60


def jobs_view(items: Sequence[Document]) -> RenderableType:
    """One line for each delivery."""
    if not items:
        return Text("No jobs.", style="dim")
    now = time.time()
    table = plain_table("id", "code", "group", "status", "tries", "to", "age", "error")
    for item in items:
        table.add_row(
            Text(str(item.get("id"))),
            Text(str(item.get("code"))),
            Text(str(item.get("messageGroup") or "")),
            job_status(item),
            f"{item.get('attemptCount')}/{item.get('maxRetries')}",
            Text(str(item.get("targetUrl")).partition("://")[2]),
            _age(item.get("createdAt"), now),
            Text(_short(item.get("lastError")), style="red"),
        )
    return table


def job_view(job: Document) -> RenderableType:
    """One delivery with its attempts and what it brings."""
    parts: list[RenderableType] = [_head(job), Text(""), _attempts(job.get("attempts") or ())]
    if job.get("payloadEncoding") == "none":
        parts += [Text(""), Text("What it brought is gone.", style="dim")]
    else:
        parts += [Text(""), Text("brings", style="dim"), Text(_payload(job))]
    return Group(*parts)


def job_status(item: Document) -> Text:
    """How a job stands, in its colour."""
    status = str(item.get("status"))
    text = Text(status, style=STATUS_STYLES.get(status, ""))
    return text.append(" (ignored)", style="dim") if item.get("ignored") else text


def refusals_view(refused: Sequence[Document], most: int = 20) -> RenderableType:
    """The first jobs that were left as they are, with why."""
    table = plain_table("id", "status", "why not")
    for one in refused[:most]:
        status = str(one.get("status") or "")
        result = str(one.get("result"))
        table.add_row(
            Text(str(one["id"])),
            Text(status, style=STATUS_STYLES.get(status, "")),
            REFUSAL_REASONS.get(result, result),
        )
    rest = len(refused) - most
    return Group(table, Text(f"… and {rest} more", style="dim")) if rest > 0 else table


def _head(job: Document) -> RenderableType:
    order = str(job.get("mode"))
    if job.get("messageGroup"):
        order += f", sequence {job.get('sequence')}"
    auth = "  (shows who calls)" if job.get("hasAuth") else ""
    metadata = [f"{one['key']}={one['value']}" for one in job.get("metadata") or ()]
    return pairs_table(
        [
            ("job", Text(str(job.get("id")))),
            ("kind", str(job.get("kind"))),
            ("code", Text(str(job.get("code")))),
            ("status", job_status(job)),
            ("error", Text(str(job.get("lastError") or ""), style="red")),
            ("to", Text(f"{job.get('targetUrl')}{auth}")),
            ("signed", str(job.get("signature") or "")),
            ("pool", Text(str(job.get("dispatchPoolCode")))),
            ("group", Text(str(job.get("messageGroup") or ""))),
            ("mode", order),
            ("event", Text(str(job.get("eventId") or ""))),
            ("subscription", Text(str(job.get("subscriptionId") or ""))),
            ("source", Text(str(job.get("source") or ""))),
            ("subject", Text(str(job.get("subject") or ""))),
            ("correlation", Text(str(job.get("correlationId") or ""))),
            ("client", Text(str(job.get("clientId") or ""))),
            ("schema", Text(str(job.get("schemaId") or ""))),
            ("idempotency key", Text(str(job.get("idempotencyKey") or ""))),
            ("metadata", Text(", ".join(metadata))),
            ("attempts", f"{job.get('attemptCount')} of {job.get('maxRetries')}"),
            ("an attempt takes", f"at most {format_duration(job.get('timeoutSeconds') or 0)}"),
            ("made", local_time(job.get("createdAt"))),
            ("not before", "" if job.get("completedAt") else local_time(job.get("scheduledFor"))),
            ("not after", local_time(job.get("expiresAt"))),
            ("ended", _ended(job)),
            ("put aside", local_time(job.get("ignoredAt"))),
        ]
    )


def _attempts(attempts: Sequence[Document]) -> RenderableType:
    if not attempts:
        return Text("It was not sent yet.", style="dim")
    table = plain_table("attempt", "when", "result", "answer", "took", "what came", right=(0, 3, 4))
    for one in attempts:
        status = str(one.get("status"))
        table.add_row(
            str(one.get("attemptNumber")),
            local_clock_time(one.get("attemptedAt")),
            Text(status, style=RESULT_STYLES.get(status, "red")),
            str(one.get("responseCode") or ""),
            f"{one.get('durationMillis')} ms",
            Text(_short(one.get("errorMessage") or one.get("responseBody"))),
        )
    return table


def _ended(job: Document) -> str:
    took = job.get("durationMillis")
    ended = local_time(job.get("completedAt"))
    return ended if took is None else f"{ended}, after {format_duration(took / 1000)}"


def _payload(job: Document) -> str:
    payload: Any = job.get("payload")
    if job.get("payloadEncoding") == "json":
        return json.dumps(payload, indent=2, ensure_ascii=False)
    return f"{payload}  (base64)" if job.get("payloadEncoding") == "base64" else str(payload)


def _age(moment: Any, now: float) -> str:
    try:
        return format_duration(now - datetime.fromisoformat(str(moment)).timestamp())
    except ValueError:
        return ""


def _short(text: Any) -> str:
    line = " ".join(str(text or "").split())
    return line if len(line) <= _ERROR_WIDTH else line[: _ERROR_WIDTH - 1] + "…"
