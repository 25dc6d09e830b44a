"""`muster wait`: wait states from the shell."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.shell.client import wait_path
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.durations import parse_duration
from cli.shell.errors import InputError
from cli.shell.json_input import read_object
from cli.shell.lazy import SETTINGS, example
from cli.waits.tail import CorrelationId, ExecutionId
from cli.waits.views import explanation_view, registration_view, wait_view, waits_view
from core.waits.spec import Strategy
from core.waits.strategy import Status

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Register, show, list, cancel and explain wait states.",
)

_CONFIG = (
    '{"apiCall": {"url": "https://api.example.com/process"}, '
    '"kafkaEvent": {"topic": "process.completed"}, "timeout": 300}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitIdOptions:
    """The ids of a new wait state; Muster makes those that are missing."""

    execution: Annotated[str | None, typer.Option(help="Execution id.")] = None
    correlation: Annotated[str | None, typer.Option(help="Correlation id.")] = None
    node: Annotated[str | None, typer.Option(help="Node id; 'wait' if not given.")] = None


@app.command(
    "register",
    epilog=example(
        "muster wait register @wait.json --execution order-17",
        f"muster wait register '{_CONFIG}'",
    ),
)
@command
async def register(
    config: Annotated[
        str,
        typer.Argument(
            help="wait_events configuration: JSON, @file, or - for standard input.",
            metavar="CONFIG",
        ),
    ],
    names: WaitIdOptions,
    shell: CommandContext,
) -> None:
    """Register a wait state and print its ids and callback URL.

    CONFIG is the data block of a wait_events node, or the whole node with its type. The API call
    is yours to make, with the ids and the callback URL that are printed.
    """
    body = registration_body(read_object(config), names)
    async with shell.connect() as client:
        registered = await client.post("/api/wait-states", body)
    if shell.as_json:
        print_json(registered)
        return
    out.print(registration_view(registered))
    out.print(registered.get("callbackUrl") or "", markup=False, soft_wrap=True)


@app.command("show", epilog=example("muster wait show order-17 payment --wait 30s"))
@command
async def show(
    execution_id: ExecutionId,
    correlation_id: CorrelationId,
    shell: CommandContext,
    wait: Annotated[
        str | None, typer.Option(help="Wait this long for the end (at most 60s).")
    ] = None,
) -> None:
    """Show one wait state: what it has, what it misses, when it gives up."""
    seconds = parse_duration(wait).total_seconds() if wait else 0
    if seconds > 60:
        raise InputError("--wait is at most 60s; `muster tail` waits as long as it takes.")
    params = {"wait": seconds} if seconds else None
    async with shell.connect() as client:
        found = await client.get(
            wait_path(execution_id, correlation_id), params, server_wait=seconds
        )
    print_json(found) if shell.as_json else out.print(wait_view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitListOptions:
    """Which wait states a listing shows."""

    status: Annotated[Status | None, typer.Option(help="Only those that stand so.")] = None
    execution: Annotated[str | None, typer.Option(help="Only those of this execution.")] = None
    strategy: Annotated[Strategy | None, typer.Option(help="Only this strategy.")] = None
    older_than: Annotated[
        str | None, typer.Option(help="Only those registered longer ago, as in 15m or 2d.")
    ] = None
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many on one page.")] = 50
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended.")] = None

    def params(self) -> dict[str, str | int | float | None]:
        """The listing's query."""
        age = parse_duration(self.older_than).total_seconds() if self.older_than else None
        return {
            "status": self.status.value if self.status else None,
            "executionId": self.execution,
            "strategy": self.strategy.value if self.strategy else None,
            "olderThan": age,
            "limit": self.limit,
            "cursor": self.cursor,
        }


@app.command("list", epilog=example("muster wait list --status waiting --older-than 1h"))
@command
async def list_(options: WaitListOptions, shell: CommandContext) -> None:
    """List wait states, newest first, page by page."""
    async with shell.connect() as client:
        page = await client.get("/api/wait-states", options.params())
    if shell.as_json:
        print_json(page)
        return
    out.print(waits_view(page["items"]))
    if page.get("nextCursor"):
        out.print(f"[dim]More: --cursor {page['nextCursor']}[/]", soft_wrap=True)


@app.command("cancel", epilog=example("muster wait cancel order-17 payment"))
@command
async def cancel(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Cancel a wait state that still waits."""
    async with shell.connect() as client:
        ended = await client.delete(wait_path(execution_id, correlation_id))
    if shell.as_json:
        print_json(ended)
    else:
        out.print(f"{execution_id}:{correlation_id} is cancelled.", markup=False)


@app.command("explain", epilog=example("muster wait explain order-17 payment"))
@command
async def explain(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Say why a wait state still waits or ended so, and which events nearly matched."""
    async with shell.connect() as client:
        explanation = await client.get(wait_path(execution_id, correlation_id, "explain"))
    print_json(explanation) if shell.as_json else out.print(explanation_view(explanation))


def registration_body(config: dict[str, Any], names: WaitIdOptions) -> dict[str, Any]:
    """The request for a configuration given as data block, node, or whole request."""
    body = dict(config) if "data" in config else {"data": config}
    given = {
        "executionId": names.execution,
        "correlationId": names.correlation,
        "nodeId": names.node,
    }
    return body | {name: value for name, value in given.items() if value is not None}
