"""`muster events`: send, list and show events."""

import json
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Client, Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.json_input import read_argument, read_json_text
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, pairs, sections, table_or
from cli.shell.parsing import encode_with_raw, join_path, parse_entries, parse_pairs, parse_time
from cli.shell.problems import ProblemResponseError, explain_not_found
from cli.shell.resource import ApiResource
from core.shared.media_types import is_json_type

PATH = "/api/events"
SOURCE = "muster-cli"


def _type(event: Document) -> str:
    return "  ".join(str(event[name]) for name in ("type", "typeVersion") if event.get(name))


def _extensions(value: Any) -> str:
    return ", ".join(f"{name}={text}" for name, text in (value or {}).items())


def _check_context(given: list[str]) -> list[str]:
    parse_pairs(given, "context")
    return given


events = ApiResource(
    "event",
    "events",
    PATH,
    argument=argument("The event's id.", metavar="ID"),
    example="0PJ3F6SK81VB8",
    listing=columns(
        "id",
        "type",
        "source",
        "subject",
        ("group", "messageGroup"),
        ("time", "time", fmt.moment),
        ("bytes", "dataSize", fmt.number),
    ),
    details=columns(
        ("event", "id"),
        ("type", _type),
        "source",
        "subject",
        ("time", "time", fmt.moment),
        ("received", "createdAt", fmt.moment),
        ("group", "messageGroup"),
        ("deduplication id", "deduplicationId"),
        ("execution", "executionId"),
        ("correlation", "correlationId"),
        ("caused by", "causationId"),
        ("context", "contextData", fmt.key_values),
        ("extensions", "extensions", _extensions),
        ("schema", "dataSchema"),
        ("content type", "dataContentType"),
    ),
)
DELIVERIES = columns(
    ("job", "id"),
    ("group", "messageGroup"),
    "status",
    ("attempts", lambda job: f"{job.get('attemptCount')} of {job.get('maxRetries')}"),
    ("target", "targetUrl"),
    ("error", "lastError", fmt.error),
)
app = events.app


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEventOptions:
    """An event to send, except its type and its data."""

    source: str = option("Where the event happened.", default=SOURCE)
    subject: str | None = option("What the event is about.")
    group: str | None = option(
        "Message group, whose deliveries keep their order.", api="messageGroup"
    )
    dedup: str | None = option(
        "An event sent again with this id is the same event.", api="deduplicationId"
    )
    context: list[str] | None = option(
        "NAME=VALUE to find the event by; repeatable.",
        api="contextData",
        convert=parse_entries("context"),
    )
    execution: str | None = option(
        "With --correlation: the wait state that the event is for.", api="executionId"
    )
    correlation: str | None = option("Correlation id.", api="correlationId")
    causation: str | None = option("Id of the event that caused this one.", api="causationId")
    type_version: str | None = option("Version of the event type, as in 1.0.")
    content_type: str | None = option(
        "Content type of data that is not JSON; it is sent as text.", api="dataContentType"
    )

    def encode_data(self, data: str | None) -> str | None:
        """Return the data as JSON text, which is sent digit by digit as it was written."""
        if data is None:
            return None
        if self.content_type is None or is_json_type(self.content_type):
            return read_json_text(data)
        return json.dumps(read_argument(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilters:
    type_: str | None = option("A type, or a pattern with * such as 'shop:*:order:*'.", "--type")
    source: str | None = option("Only events from this source.")
    subject: str | None = option("Only events about this subject.")
    group: str | None = option("Only events of this message group.", api="messageGroup")
    correlation: str | None = option("Only events with this correlation id.", api="correlationId")
    context: list[str] | None = option(
        "Only events with this NAME=VALUE; repeatable.", api="context", convert=_check_context
    )
    since: str | None = option(
        "Only events since: 10m ago, or a date and time.", api="from", convert=parse_time
    )
    until: str | None = option("Only events before.", api="to", convert=parse_time)


@subcommand(
    app,
    "send",
    """muster events send shop:orders:order:created -d '{"order": 17}' --group customer-4""",
    "muster events send shop:orders:order:paid -d @order.json --dedup payment-81",
)
async def send(
    options: SendEventOptions,
    shell: CommandContext,
    type_: str = argument("As in shop:orders:order:created.", metavar="TYPE"),
    data: str | None = option("The data: JSON, @file, or -.", "--data", "-d"),
) -> None:
    """Send an event; it is delivered, signed, to every subscription that matches.

    When the command ends, the event and its deliveries are stored. An event that does not match
    the schema of its type is refused, and the error names the field.
    """
    fields = {"type": type_, **request_fields(options)}
    body = encode_with_raw(fields, "data", options.encode_data(data))
    reply = await shell.call("post", PATH, body=body)
    shell.print(reply, _sent(reply))


events.add_list(
    "List events, newest first, page by page.",
    "muster events list --type 'shop:*:*:*' --since 10m",
    "muster events list --context customer=4 --json",
    filters=EventFilters,
    limit=50,
)


@subcommand(app, "show", "muster events show 0PJ3F6SK81VB8")
async def show(shell: CommandContext, event_id: str = events.argument) -> None:
    """Show one event: its data and its deliveries."""
    async with shell.connect() as client:
        with explain_not_found(events.missing(event_id)):
            event = await client.get(events.path_of(event_id))
        jobs = await _jobs_of(client, event_id)
    parts: list[RenderableType] = [pairs(events.details, event), _data(event)]
    if jobs is not None:
        parts.append(table_or(DELIVERIES, jobs, "No subscription received it."))
    shell.print({**event, "jobs": jobs} if jobs is not None else event, sections(*parts))


async def _jobs_of(client: Client, event_id: str) -> list[Any] | None:
    """Return the deliveries of an event, or None if the key may not see them."""
    try:
        page = await client.get(join_path("/api/dispatch-jobs/event", event_id))
    except ProblemResponseError as problem:
        if problem.status != 403:
            raise
        return None
    return list(page["items"])


def _sent(reply: Document) -> RenderableType:
    line = Text(f"{reply['event']['id']}  ")
    if reply.get("duplicate"):
        line.append("duplicate: an event with this id was stored before", style="yellow")
    else:
        jobs = reply.get("dispatchJobCount") or 0
        words = f"{jobs} {'delivery' if jobs == 1 else 'deliveries'}"
        line.append("stored", style="green")
        line.append(f", {words if jobs else 'no subscription matches'}", style="default")
    parts: list[RenderableType] = [line]
    for one in reply.get("warnings") or ():
        sentence = f"does not match the schema: data{one.get('path')}: {one.get('expected')}"
        parts.append(Text(sentence, style="yellow"))
    if wait := reply.get("wait"):
        parts.append(fmt.dim("wait: ").append_text(fmt.verdict_line(wait)))
        if wait.get("retryable"):
            parts.append(fmt.dim("send it again with the same deduplication id to reach the wait"))
    return Group(*parts)


def _data(event: Document) -> Text:
    if "dataBase64" in event:
        return fmt.payload(event["dataBase64"], "base64", "")
    data = event.get("data")
    encoding = "none" if "data" not in event else "text" if isinstance(data, str) else "json"
    return fmt.payload(data, encoding, "The event has no data.")
