"""`muster wait`: wait states."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell.client import wait_path
from cli.shell.context import CommandContext, out, subcommand
from cli.shell.durations import parse_duration
from cli.shell.errors import InputError
from cli.shell.json_input import read_object
from cli.shell.options import ApiField, request_fields
from cli.shell.output import (
    WAIT_STATUS_STYLES,
    Document,
    columns,
    dim,
    moment,
    pairs,
    pairs_table,
    pretty,
    styled,
    table,
    text,
    whole_line,
)
from cli.shell.resource import ApiResource
from cli.waits.tail import CorrelationId, ExecutionId
from core.waits.spec import Strategy
from core.waits.strategy import Status

PATH = "/api/wait-states"
STATUS = styled(WAIT_STATUS_STYLES)
OUTCOME = styled(
    {
        "pending": "cyan",
        "received": "green",
        "timed_out": "red",
        "failed": "red",
        "rejected": "red",
    }
)
_CONFIG = (
    '{"apiCall": {"url": "https://api.example.com/process"}, '
    '"kafkaEvent": {"topic": "process.completed"}, "timeout": 300}'
)


def _progress(wait: Document) -> str:
    received, expected = wait.get("receivedEvents") or (), wait.get("enabledEvents") or ()
    return f"{len(received)} of {len(expected)}"


def _strategy(wait: Document) -> str:
    return f"{wait.get('aggregationStrategy')}, onTimeout {wait.get('onTimeout')}"


def _resumed(wait: Document) -> str:
    at = wait.get("resumedAt")
    return f"{moment(at)} by {wait.get('resumedBy')}" if at else ""


def _event_time(event: Document) -> str:
    return moment(event.get("at")) or f"until {moment(event.get('deadline'))}"


def _event_origin(event: Document) -> Text:
    return Text(" ".join(str(event[name]) for name in ("source", "label") if event.get(name)))


REGISTRATION = columns(
    ("execution", "executionId"),
    ("correlation", "correlationId"),
    ("status", "status", STATUS),
    ("waits for", "enabledEvents"),
    ("expires", "expiresAt", moment),
)
DETAILS = columns(
    ("wait state", "waitStateId"),
    ("node", "nodeId"),
    ("status", "status", STATUS),
    "reason",
    ("warning", "warning", styled({}, "yellow")),
    ("strategy", _strategy),
    ("registered", "createdAt", moment),
    ("expires", "expiresAt", moment),
    ("ended", "endedAt", moment),
    ("resumed", _resumed),
    "version",
)
EVENTS = columns(
    "event",
    ("outcome", "outcome", OUTCOME),
    ("from", _event_origin),
    ("required", lambda event: text(bool(event.get("required")))),
    ("when", _event_time),
    ("data", "data", whole_line),
)
waits = ApiResource(
    "wait state",
    "wait",
    PATH,
    argument=str,
    example="",
    listing=columns(
        ("execution", "executionId"),
        ("correlation", "correlationId"),
        ("status", "status", STATUS),
        ("strategy", "aggregationStrategy"),
        ("received", _progress),
        ("expires", "expiresAt", moment),
    ),
)
app = waits.app


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitIdOptions:
    """The ids of a new wait state; Muster makes those that are missing."""

    execution: Annotated[
        str | None, typer.Option(help="Execution id."), ApiField("executionId")
    ] = None
    correlation: Annotated[
        str | None, typer.Option(help="Correlation id."), ApiField("correlationId")
    ] = None
    node: Annotated[
        str | None, typer.Option(help="Node id; 'wait' if not given."), ApiField("nodeId")
    ] = None


@subcommand(
    app,
    "register",
    "muster wait register @wait.json --execution order-17",
    f"muster wait register '{_CONFIG}'",
)
async def register(
    config: Annotated[
        str,
        typer.Argument(
            help="wait_events configuration: JSON, @file, or - for standard input.",
            metavar="CONFIG",
        ),
    ],
    ids: WaitIdOptions,
    shell: CommandContext,
) -> None:
    """Register a wait state and print its ids and callback URL.

    CONFIG is the data block of a wait_events node, or the whole node with its type. Muster does
    not make the API call: make it yourself, with the ids and the callback URL that are printed.
    """
    given = read_object(config)
    body = (dict(given) if "data" in given else {"data": given}) | request_fields(ids)
    async with shell.connect() as client:
        registered = await client.post(PATH, body)
    shell.print(registered, pairs(REGISTRATION, registered))
    if not shell.as_json:  # apart from the table, which would break the URL over lines
        out.print(registered.get("callbackUrl") or "", markup=False, soft_wrap=True)


@subcommand(app, "show", "muster wait show order-17 payment --wait 30s")
async def show(
    execution_id: ExecutionId,
    correlation_id: CorrelationId,
    shell: CommandContext,
    wait: Annotated[
        str | None, typer.Option(help="Wait up to this long for the end (at most 60s).")
    ] = None,
) -> None:
    """Show one wait state: which events arrived, which are missing, and when it expires."""
    seconds = parse_duration(wait).total_seconds() if wait else 0
    if seconds > 60:
        raise InputError("--wait is at most 60s; `muster tail` waits as long as it takes.")
    params = {"wait": seconds} if seconds else None
    async with shell.connect() as client:
        found = await client.get(
            wait_path(execution_id, correlation_id), params, server_wait=seconds
        )
    shell.print(found, _view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFilters:
    """Which wait states a listing shows."""

    status: Annotated[Status | None, typer.Option(help="Only wait states of this status.")] = None
    execution: Annotated[
        str | None,
        typer.Option(help="Only wait states of this execution."),
        ApiField("executionId"),
    ] = None
    strategy: Annotated[
        Strategy | None, typer.Option(help="Only wait states with this strategy.")
    ] = None
    older_than: Annotated[
        str | None,
        typer.Option(help="Only wait states registered longer ago, as in 15m or 2d."),
        ApiField("olderThan", lambda text: parse_duration(text).total_seconds()),
    ] = None


waits.add_list(
    "List wait states, newest first, page by page.",
    "muster wait list --status waiting --older-than 1h",
    filters=WaitFilters,
    limit=50,
)


@subcommand(app, "cancel", "muster wait cancel order-17 payment")
async def cancel(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Cancel a wait state that still waits."""
    async with shell.connect() as client:
        ended = await client.delete(wait_path(execution_id, correlation_id))
    shell.print(ended, f"Wait state {execution_id}:{correlation_id} is cancelled.")


@subcommand(app, "explain", "muster wait explain order-17 payment")
async def explain(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Explain why a wait state still waits or how it ended, and which events nearly matched."""
    async with shell.connect() as client:
        explanation = await client.get(wait_path(execution_id, correlation_id, "explain"))
    shell.print(explanation, _explanation(explanation))


def _view(wait: Document) -> RenderableType:
    parts: list[RenderableType] = [pairs(DETAILS, wait)]
    events = [{"event": name, **event} for name, event in (wait.get("events") or {}).items()]
    if events:
        parts.append(table(EVENTS, events))
    if wait.get("output") is not None:
        parts += [dim("output"), Text(pretty(wait["output"]))]
    return Group(*parts)


def _explanation(found: Document) -> RenderableType:
    events = [(name, Text(sentence)) for name, sentence in (found.get("events") or {}).items()]
    parts: list[RenderableType] = [Text(str(found["summary"]), style="bold"), pairs_table(events)]
    misses: Any = found.get("nearMisses") or ()
    if misses:
        parts.append(Text("Events that nearly matched:", style="yellow"))
    for miss in misses:
        origin = f"{miss.get('source')} {miss.get('label')} {miss.get('eventId')}"
        line = dim(f"  {moment(miss.get('at'))}  {origin}: ")
        parts.append(line.append(str(miss.get("sentence")), style="default"))
    return Group(*parts)
