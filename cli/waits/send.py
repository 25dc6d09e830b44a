"""`muster send`: a callback from the shell."""

import json
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.text import Text

from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.json_input import read_json_text
from cli.waits.tail import CorrelationId, ExecutionId

DEFAULT_SERVICE = "external-service"
_COUNTS = {"matched", "buffered", "duplicate"}
_STYLES = {"matched": "bold green", "buffered": "bold cyan", "duplicate": "bold yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """What to send, as whom, and with which right."""

    data: Annotated[str, typer.Option(help="Payload: JSON, @file, or - for standard input.")] = "{}"
    service: Annotated[
        str | None,
        typer.Option(help=f"The service that calls back; {DEFAULT_SERVICE} if not given."),
    ] = None
    topic: Annotated[
        str | None, typer.Option(help="Send a Kafka event of this topic instead of a callback.")
    ] = None
    event_id: Annotated[
        str | None, typer.Option(help="Id of the event: sent again, it counts once.")
    ] = None
    token: Annotated[
        str | None, typer.Option(help="Token of a callback URL, instead of a key.")
    ] = field(default=None, repr=False)

    def path(self) -> str:
        """The route for this kind of event."""
        if self.topic is None:
            return f"/api/internal/callbacks/{quote(self.service or DEFAULT_SERVICE, safe='')}"
        if self.service is not None or self.token is not None:
            raise InputError("--topic goes neither with --service nor with --token.")
        return f"/api/internal/events/{quote(self.topic, safe='')}"

    def headers(self) -> dict[str, str]:
        """The event's id, and the token that proves the right to send it."""
        given = {"X-Event-Id": self.event_id, "X-Callback-Token": self.token}
        return {name: _in_header(name, text) for name, text in given.items() if text is not None}


@command
async def send(
    execution_id: ExecutionId,
    correlation_id: CorrelationId,
    options: SendOptions,
    shell: CommandContext,
) -> None:
    """Send a callback (or, with --topic, an event) to a wait state and print the verdict.

    Exit code 0 if the event counts now, will count once the wait is registered, or has counted
    before; 1 if it was late or rejected.
    """
    path = options.path()
    ids, body = address_event(execution_id, correlation_id, read_json_text(options.data))
    if options.token is not None:
        shell = replace(shell, key="")
    async with shell.connect() as client:
        reply = await client.post(path, body, options.headers() | ids)
    print_json(reply) if shell.as_json else out.print(verdict_line(reply), soft_wrap=True)
    if reply.get("verdict") not in _COUNTS:
        raise typer.Exit(1)


def verdict_line(reply: dict[str, Any]) -> Text:
    """The verdict, the reason, and both values if they differ."""
    verdict = str(reply.get("verdict"))
    line = Text(verdict, style=_STYLES.get(verdict, "bold red"))
    line.append(f"  {reply.get('detail') or reply.get('reason')}", style="default")
    if reply.get("waitStatus"):
        line.append(f"  (the wait is {reply['waitStatus']})", style="dim")
    return line


def address_event(
    execution_id: str, correlation_id: str, text: str
) -> tuple[dict[str, str], bytes]:
    """Where the ids go: into headers, or into the body if headers cannot carry them."""
    if execution_id.isascii() and correlation_id.isascii():
        headers = {"X-Execution-Id": execution_id, "X-Correlation-Id": correlation_id}
        return {name: _in_header(name, value) for name, value in headers.items()}, text.encode()
    body = json.loads(text)
    if not isinstance(body, dict):
        raise InputError("Ids with other letters than ASCII need a JSON object as --data.")
    ids = {"execution_id": execution_id, "correlation_id": correlation_id}
    return {}, json.dumps(body | ids).encode()


def _in_header(name: str, text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise InputError(f"{name} can only be printable ASCII, not {text!r}.")
    return text
