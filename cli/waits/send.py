"""`muster send`: a callback or an event for a wait state."""

import json
from dataclasses import dataclass, replace
from urllib.parse import quote

import typer

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, out, print_json, single_command
from cli.shell.errors import InputError
from cli.shell.json_input import read_json_text
from cli.shell.options import option
from cli.waits.tail import CorrelationId, ExecutionId

DEFAULT_SERVICE = "external-service"
_COUNTS = {"matched", "buffered", "duplicate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    data: str = option("Payload: JSON, @file, or - for standard input.", default="{}")
    service: str | None = option(f"The service that calls back; {DEFAULT_SERVICE} if not given.")
    topic: str | None = option("Send a Kafka event of this topic instead of a callback.")
    event_id: str | None = option("Id of the event; an event sent twice with it counts once.")
    token: str | None = option("Token of a callback URL, in place of an API key.", secret=True)

    def path(self) -> str:
        if self.topic is None:
            return f"/api/internal/callbacks/{quote(self.service or DEFAULT_SERVICE, safe='')}"
        if self.service is not None or self.token is not None:
            raise InputError("--topic cannot be combined with --service or --token.")
        return f"/api/internal/events/{quote(self.topic, safe='')}"

    def headers(self) -> dict[str, str]:
        given = {"X-Event-Id": self.event_id, "X-Callback-Token": self.token}
        return {name: _in_header(name, text) for name, text in given.items() if text is not None}


@single_command("""muster send order-17 payment --data '{"paid": true}'""")
async def send(
    execution_id: ExecutionId,
    correlation_id: CorrelationId,
    options: SendOptions,
    shell: CommandContext,
) -> None:
    """Send a callback (or, with --topic, an event) to a wait state and print the verdict.

    Exit code 0 if the event counts, counted before, or is kept until the wait is registered; 1 if
    it was late or rejected.
    """
    path = options.path()
    ids, body = address_event(execution_id, correlation_id, read_json_text(options.data))
    if options.token is not None:
        shell = replace(shell, key="")
    async with shell.connect() as client:
        reply = await client.post(path, body, options.headers() | ids)
    print_json(reply) if shell.as_json else out.print(fmt.verdict_line(reply), soft_wrap=True)
    if reply.get("verdict") not in _COUNTS:
        raise typer.Exit(1)


def address_event(
    execution_id: str, correlation_id: str, text: str
) -> tuple[dict[str, str], bytes]:
    """Put the ids into headers, or into the body if headers cannot carry them."""
    if execution_id.isascii() and correlation_id.isascii():
        headers = {"X-Execution-Id": execution_id, "X-Correlation-Id": correlation_id}
        return {name: _in_header(name, value) for name, value in headers.items()}, text.encode()
    body = json.loads(text)
    if not isinstance(body, dict):
        raise InputError("Ids with characters beyond ASCII need a JSON object as --data.")
    ids = {"execution_id": execution_id, "correlation_id": correlation_id}
    return {}, json.dumps(body | ids).encode()


def _in_header(name: str, text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise InputError(f"{name} must be printable ASCII, not {text!r}.")
    return text
