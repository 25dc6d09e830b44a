"""`muster events`: send, list and show events."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import (
    CursorOption,
    LimitOption,
    encode_with_raw,
    join_path,
    parse_pairs,
    parse_time,
)
from cli.events.event_views import event_view, events_view, sent_view
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.json_input import read_argument, read_json_text
from cli.shell.lazy import SETTINGS, example
from cli.shell.problems import ProblemResponseError
from cli.shell.tables import print_page
from core.events.event import is_json

PATH = "/api/events"
SOURCE = "muster-cli"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Send events to all who want them; list and show what came.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEventOptions:
    """An event to send, but for its type."""

    data: Annotated[
        str | None, typer.Option("--data", "-d", help="Its data: JSON, @file, or -.")
    ] = None
    source: Annotated[str, typer.Option(help="Where it happened.")] = SOURCE
    subject: Annotated[str | None, typer.Option(help="What it is about.")] = None
    group: Annotated[
        str | None, typer.Option(help="Message group: deliveries of one keep their order.")
    ] = None
    dedup: Annotated[
        str | None, typer.Option(help="Sent again with the same id, it is still one event.")
    ] = None
    context: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE to find it by; once for each.")
    ] = None
    execution: Annotated[
        str | None, typer.Option(help="With --correlation: the wait that it is for.")
    ] = None
    correlation: Annotated[str | None, typer.Option(help="Correlation id.")] = None
    causation: Annotated[str | None, typer.Option(help="The event that led to it.")] = None
    type_version: Annotated[
        str | None, typer.Option(help="The version of its type that it is, as in 1.0.")
    ] = None
    content_type: Annotated[
        str | None, typer.Option(help="What the data is, if not JSON: it is sent as text.")
    ] = None

    def body(self, type_: str) -> bytes:
        """The request, with JSON as it was written, digit by digit."""
        context = parse_pairs(self.context or (), "context")
        given = {
            "type": type_,
            "source": self.source,
            "subject": self.subject,
            "messageGroup": self.group,
            "deduplicationId": self.dedup,
            "contextData": [{"key": key, "value": value} for key, value in context] or None,
            "executionId": self.execution,
            "correlationId": self.correlation,
            "causationId": self.causation,
            "typeVersion": self.type_version,
            "dataContentType": self.content_type,
        }
        return encode_with_raw(given, "data", self._data())

    def _data(self) -> str | None:
        if self.data is None:
            return None
        if self.content_type is None or is_json(self.content_type):
            return read_json_text(self.data)
        return json.dumps(read_argument(self.data))


@app.command(
    "send",
    epilog=example(
        """muster events send shop:orders:order:created -d '{"order": 17}' --group customer-4""",
        "muster events send shop:orders:order:paid -d @order.json --dedup payment-81",
    ),
)
@command
async def send(
    type_: Annotated[str, typer.Argument(help="As in shop:orders:order:created.", metavar="TYPE")],
    options: SendEventOptions,
    shell: CommandContext,
) -> None:
    """Send an event; all who want it get it, delivered and signed.

    When this ends, the event and its deliveries are stored. An event that its type's schema does
    not allow is refused, and the error names the place.
    """
    body = options.body(type_)
    async with shell.connect() as client:
        reply = await client.post(PATH, body)
    print_json(reply) if shell.as_json else out.print(sent_view(reply))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventListOptions:
    """Which events a listing shows."""

    type_: Annotated[
        str | None,
        typer.Option("--type", help="A type, or a pattern with * such as 'shop:*:order:*'."),
    ] = None
    source: Annotated[str | None, typer.Option(help="Only those from there.")] = None
    subject: Annotated[str | None, typer.Option(help="Only those about this.")] = None
    group: Annotated[str | None, typer.Option(help="Only those of this message group.")] = None
    correlation: Annotated[str | None, typer.Option(help="Only this correlation id.")] = None
    context: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE that they carry; all of them.")
    ] = None
    since: Annotated[
        str | None, typer.Option(help="Only those since: 10m ago, or a date and time.")
    ] = None
    until: Annotated[str | None, typer.Option(help="Only those before.")] = None
    limit: LimitOption = 50
    cursor: CursorOption = None

    def params(self, now: datetime) -> dict[str, Any]:
        """The listing's query."""
        parse_pairs(self.context or (), "context")
        return {
            "type": self.type_,
            "source": self.source,
            "subject": self.subject,
            "messageGroup": self.group,
            "correlationId": self.correlation,
            "context": self.context or None,
            "from": parse_time(self.since, now) if self.since else None,
            "to": parse_time(self.until, now) if self.until else None,
            "limit": self.limit,
            "cursor": self.cursor,
        }


@app.command(
    "list",
    epilog=example(
        "muster events list --type 'shop:*:*:*' --since 10m",
        "muster events list --context customer=4 --json",
    ),
)
@command
async def list_(options: EventListOptions, shell: CommandContext) -> None:
    """List events, newest first, page by page."""
    params = options.params(datetime.now(UTC))
    async with shell.connect() as client:
        page = await client.get(PATH, params)
    print_page(page, events_view, shell)


@app.command("show", epilog=example("muster events show 0PJ3F6SK81VB8"))
@command
async def show(
    event_id: Annotated[str, typer.Argument(help="The event's id.", metavar="ID")],
    shell: CommandContext,
) -> None:
    """Show one event: its data, and who gets it."""
    async with shell.connect() as client:
        event = await client.get(join_path(PATH, event_id))
        jobs = await _jobs_of(client, event_id)
    if shell.as_json:
        print_json({**event, "jobs": jobs} if jobs is not None else event)
    else:
        out.print(event_view(event, jobs))


async def _jobs_of(client: Client, event_id: str) -> list[dict[str, Any]] | None:
    """Its deliveries, if the key may see them."""
    try:
        page = await client.get(join_path("/api/dispatch-jobs/event", event_id))
    except ProblemResponseError as problem:
        if problem.status != 403:
            raise
        return None
    jobs: list[dict[str, Any]] = page["items"]
    return jobs
