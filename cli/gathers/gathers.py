"""`muster gather`: gathers from the shell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.gathers.views import event_line, gather_view, started_view
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, out, print_json, print_json_line
from cli.shell.durations import parse_duration
from cli.shell.errors import InputError
from cli.shell.json_input import read_object
from cli.shell.lazy import SETTINGS, example
from cli.waits.follow import follow_stream
from cli.waits.tail import print_reconnecting
from core.gathers.gather import MAX_TIMEOUT_MS, GatherMode

PATH = "/api/gathers"
SUMMARY = "summary"
GatherIdArgument = Annotated[str, typer.Argument(help="The gather's id.", metavar="ID")]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Ask many resources at once; show, follow and cancel it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOptions:
    """How to ask."""

    mode: Annotated[
        GatherMode, typer.Option(help="Print answers as they come, or all of them at the end.")
    ] = GatherMode.STREAM
    timeout: Annotated[
        str | None, typer.Option(help="How long to wait for answers; 10s if not given.")
    ] = None
    context: Annotated[
        str | None,
        typer.Option(help="What every resource is told: a JSON object, @file, or -."),
    ] = None
    detach: Annotated[
        bool, typer.Option("--detach", help="Only start it, and let it go on by itself.")
    ] = False

    def body(self, names: Sequence[str]) -> dict[str, Any]:
        """The request."""
        if self.detach and self.mode is GatherMode.WAIT:
            raise InputError("--detach does not go with --mode wait.")
        body: dict[str, Any] = {
            "resources": [parse_resource(name) for name in names],
            "mode": self.mode.value,
        }
        if self.timeout is not None:
            body["timeoutMs"] = round(self.seconds * 1000)
            if body["timeoutMs"] > MAX_TIMEOUT_MS:
                raise InputError(f"--timeout is at most {MAX_TIMEOUT_MS // 1000}s.")
        if self.context is not None:
            body["context"] = read_object(self.context)
        if self.detach:
            body["onDisconnect"] = "detach"
        return body

    @property
    def seconds(self) -> float:
        """How long it may take."""
        return parse_duration(self.timeout).total_seconds() if self.timeout else 0.0


@app.command(
    "run",
    epilog=example(
        """muster gather run laboratory pharmacy --timeout 10s --context '{"patient": "17"}'""",
        "muster gather run laboratory clinic=https://clinic.example.com/ask --mode wait --json",
    ),
)
@command
async def run(
    names: Annotated[
        list[str],
        typer.Argument(help="Registered resources, or NAME=URL for others.", metavar="NAME…"),
    ],
    options: GatherOptions,
    shell: CommandContext,
) -> None:
    """Ask resources, and print their answers as they come.

    Exit code 0 if every one of them answered, 1 if any did not. Ctrl-C cancels it, unless it was
    started with --detach. With --json each answer is one line of JSON.
    """
    body = options.body(names)
    async with shell.connect() as client:
        reply = await client.post(PATH, body, server_wait=options.seconds)
        if options.mode is GatherMode.WAIT:
            print_json(reply) if shell.as_json else out.print(gather_view(reply))
            _end(reply)
            return
        if shell.as_json and options.detach:
            print_json(reply)
        elif shell.as_json:
            print_json_line({"type": "started", **reply})
        else:
            out.print(started_view(reply))
        if not options.detach:
            _end(await _follow(client, str(reply["id"]), shell))


@app.command("show", epilog=example("muster gather show 3f9ac1d2"))
@command
async def show(gather_id: GatherIdArgument, shell: CommandContext) -> None:
    """Show one gather: who has answered, who has not, and what came."""
    async with shell.connect() as client:
        found = await client.get(gather_path(gather_id))
    print_json(found) if shell.as_json else out.print(gather_view(found))


@app.command("stream", epilog=example("muster gather stream 3f9ac1d2 --json"))
@command
async def stream(gather_id: GatherIdArgument, shell: CommandContext) -> None:
    """Follow a gather from its first answer to its summary.

    Broken connections are taken up again where they broke. Exit code 0 if every resource answered,
    1 if any did not. With --json each event is one line of JSON.
    """
    async with shell.connect() as client:
        _end(await _follow(client, gather_id, shell))


@app.command("cancel", epilog=example("muster gather cancel 3f9ac1d2"))
@command
async def cancel(gather_id: GatherIdArgument, shell: CommandContext) -> None:
    """Cancel a gather that still waits."""
    async with shell.connect() as client:
        ended = await client.delete(gather_path(gather_id))
    if shell.as_json:
        print_json(ended)
    else:
        out.print(f"{gather_id} is cancelled.", markup=False)


async def _follow(client: Client, gather_id: str, shell: CommandContext) -> Mapping[str, Any]:
    """Print every event; the summary."""
    path = gather_path(gather_id) + "/stream"
    last: Mapping[str, Any] = {}
    async for event in follow_stream(client, path, last_kind=SUMMARY, on_break=print_reconnecting):
        last = event.data()
        if shell.as_json:
            print_json_line({"id": event.event_id, "type": event.kind, **last})
        else:
            out.print(event_line(event.kind, last), soft_wrap=True)
    return last


def _end(gather: Mapping[str, Any]) -> None:
    if gather.get("completeness") != "full":
        raise typer.Exit(1)


def gather_path(gather_id: str) -> str:
    """The path of one gather."""
    return f"{PATH}/{quote(gather_id, safe='')}"


def parse_resource(text: str) -> str | dict[str, str]:
    """A resource as the request names it."""
    name, sign, url = text.partition("=")
    if not name or (sign and not url):
        raise InputError(f"'{text}' is not a resource: write its name, or NAME=URL.")
    return {"name": name, "url": url} if sign else name
