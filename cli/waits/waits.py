"""`muster wait`: wait states."""

from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document, wait_path
from cli.shell.context import CommandContext, out, subcommand
from cli.shell.errors import InputError
from cli.shell.json_input import read_object
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, pairs, pairs_table, table
from cli.shell.parsing import parse_duration
from cli.shell.resource import ApiResource
from cli.waits.tail import CorrelationId, ExecutionId
from core.waits.spec import Strategy
from core.waits.strategy import Status

PATH = "/api/wait-states"
STATUS = fmt.styled(fmt.WAIT_STATUS_STYLES)
OUTCOME = fmt.styled(
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
    return f"{fmt.moment(at)} by {wait.get('resumedBy')}" if at else ""


def _event_time(event: Document) -> str:
    return fmt.moment(event.get("at")) or f"until {fmt.moment(event.get('deadline'))}"


def _event_origin(event: Document) -> str:
    return " ".join(str(event[name]) for name in ("source", "label") if event.get(name))


REGISTRATION = columns(
    ("execution", "executionId"),
    ("correlation", "correlationId"),
    ("status", "status", STATUS),
    ("waits for", "enabledEvents"),
    ("expires", "expiresAt", fmt.moment),
)
DETAILS = columns(
    ("wait state", "waitStateId"),
    ("node", "nodeId"),
    ("status", "status", STATUS),
    "reason",
    ("warning", "warning", fmt.styled({}, "yellow")),
    ("strategy", _strategy),
    ("registered", "createdAt", fmt.moment),
    ("expires", "expiresAt", fmt.moment),
    ("ended", "endedAt", fmt.moment),
    ("resumed", _resumed),
    "version",
)
EVENTS = columns(
    "event",
    ("outcome", "outcome", OUTCOME),
    ("from", _event_origin),
    ("required", lambda event: fmt.text(bool(event.get("required")))),
    ("when", _event_time),
    ("data", "data", fmt.whole_line),
)
waits = ApiResource(
    "wait state",
    "wait",
    PATH,
    listing=columns(
        ("execution", "executionId"),
        ("correlation", "correlationId"),
        ("status", "status", STATUS),
        ("strategy", "aggregationStrategy"),
        ("received", _progress),
        ("expires", "expiresAt", fmt.moment),
    ),
)
app = waits.app


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitIdOptions:
    """The ids of a new wait state; Muster makes those that are missing."""

    execution: str | None = option("Execution id.", api="executionId")
    correlation: str | None = option("Correlation id.", api="correlationId")
    node: str | None = option("Node id; 'wait' if not given.", api="nodeId")


@subcommand(
    app,
    "register",
    "muster wait register @wait.json --execution order-17",
    f"muster wait register '{_CONFIG}'",
)
async def register(
    ids: WaitIdOptions,
    shell: CommandContext,
    config: str = argument(
        "wait_events configuration: JSON, @file, or - for standard input.", metavar="CONFIG"
    ),
) -> None:
    """Register a wait state and print its ids and callback URL.

    CONFIG is the data block of a wait_events node, or the whole node with its type. Muster does
    not make the API call: make it yourself, with the ids and the callback URL that are printed.
    """
    given = read_object(config)
    body = (dict(given) if "data" in given else {"data": given}) | request_fields(ids)
    registered = await shell.call("post", PATH, body=body)
    shell.print(registered, pairs(REGISTRATION, registered))
    if not shell.as_json:  # apart from the table, which would break the URL over lines
        out.print(registered.get("callbackUrl") or "", markup=False, soft_wrap=True)


@subcommand(app, "show", "muster wait show order-17 payment --wait 30s")
async def show(
    execution_id: ExecutionId,
    correlation_id: CorrelationId,
    shell: CommandContext,
    wait: str | None = option("Wait up to this long for the end (at most 60s)."),
) -> None:
    """Show one wait state: which events arrived, which are missing, and when it expires."""
    seconds = parse_duration(wait).total_seconds() if wait else 0
    if seconds > 60:
        raise InputError("--wait is at most 60s; `muster tail` waits as long as it takes.")
    params = {"wait": seconds} if seconds else None
    path = wait_path(execution_id, correlation_id)
    found = await shell.call("get", path, params=params, server_wait=seconds)
    shell.print(found, _view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFilters:
    status: Status | None = option("Only wait states of this status.")
    execution: str | None = option("Only wait states of this execution.", api="executionId")
    strategy: Strategy | None = option("Only wait states with this strategy.")
    older_than: str | None = option(
        "Only wait states registered longer ago, as in 15m or 2d.",
        api="olderThan",
        convert=lambda text: parse_duration(text).total_seconds(),
    )


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
    """Cancel a wait state that has not ended."""
    ended = await shell.call("delete", wait_path(execution_id, correlation_id))
    shell.print(ended, f"Wait state {execution_id}:{correlation_id} is cancelled.")


@subcommand(app, "explain", "muster wait explain order-17 payment")
async def explain(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Explain why a wait state still waits or how it ended, and which events nearly matched."""
    explanation = await shell.call("get", wait_path(execution_id, correlation_id, "explain"))
    shell.print(explanation, _explanation(explanation))


def _view(wait: Document) -> RenderableType:
    parts: list[RenderableType] = [pairs(DETAILS, wait)]
    events = [{"event": name, **event} for name, event in (wait.get("events") or {}).items()]
    if events:
        parts.append(table(EVENTS, events))
    if wait.get("output") is not None:
        parts += [fmt.dim("output"), Text(fmt.pretty(wait["output"]))]
    return Group(*parts)


def _explanation(found: Document) -> RenderableType:
    events = [(name, Text(sentence)) for name, sentence in (found.get("events") or {}).items()]
    parts: list[RenderableType] = [Text(str(found["summary"]), style="bold"), pairs_table(events)]
    misses: Any = found.get("nearMisses") or ()
    if misses:
        parts.append(Text("Events that nearly matched:", style="yellow"))
    for miss in misses:
        origin = f"{miss.get('source')} {miss.get('label')} {miss.get('eventId')}"
        line = fmt.dim(f"  {fmt.moment(miss.get('at'))}  {origin}: ")
        parts.append(line.append(str(miss.get("sentence")), style="default"))
    return Group(*parts)
