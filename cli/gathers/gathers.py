"""`muster gather`: one question to many resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Client, Document
from cli.shell.context import CommandContext, out, print_json, print_json_line, subcommand
from cli.shell.errors import InputError
from cli.shell.follow import follow_stream, print_reconnecting
from cli.shell.json_input import read_object
from cli.shell.lazy import command_group
from cli.shell.options import argument, option
from cli.shell.output import columns, pairs, sections, table
from cli.shell.parsing import join_path, parse_duration
from core.gathers.gather import MAX_TIMEOUT_MS, GatherMode

PATH = "/api/gathers"
SUMMARY = "summary"
GatherIdArgument = Annotated[str, typer.Argument(help="The gather's id.", metavar="ID")]

STATE_STYLES = {
    "calling": "dim",
    "accepted": "cyan",
    "ok": "green",
    "REJECTED": "yellow",
    "TIMEOUT": "red",
    "CONNECTION_CLOSED": "red",
    "ERROR": "red",
}
_COMPLETENESS_STYLES = {"full": "bold green", "partial": "bold yellow", "empty": "bold red"}
_WIDTH = max(map(len, STATE_STYLES))


def counts_in_words(gather: Document) -> str:
    """Write how many resources answered."""
    answered = f"{gather.get('respondents')} of {gather.get('expected')} answered"
    errors = gather.get("errors")
    parts = [answered, f"{errors} failed" if errors else "", str(gather.get("completeness") or "")]
    return ", ".join(part for part in parts if part)


STARTED = columns(("gather", "id"), ("asks", "resources"), ("until", "expiresAt", fmt.moment))
DETAILS = columns(
    ("gather", "id"),
    ("status", "status", fmt.styled(fmt.WAIT_STATUS_STYLES)),
    ("answers", counts_in_words),
    ("started", "createdAt", fmt.moment),
    ("until", lambda one: "" if one.get("endedAt") else fmt.moment(one.get("expiresAt"))),
    ("ended", "endedAt", fmt.moment),
    ("context", "context", fmt.one_line),
)
RESOURCES = columns(
    "resource",
    ("state", "state", fmt.styled(STATE_STYLES)),
    ("when", "at", lambda at: fmt.clock_time(at) if at else ""),
    "detail",
    ("data", "data", fmt.one_line),
)
app = command_group("muster gather run laboratory pharmacy --timeout 10s")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOptions:
    mode: GatherMode = option(
        "Print answers as they arrive, or all of them at the end.", default=GatherMode.STREAM
    )
    timeout: str | None = option("How long to wait for answers; 10s if not given.")
    context: str | None = option("Sent to every resource: a JSON object, @file, or -.")
    detach: bool = option(
        "Only start the gather; it continues without this command.", "--detach", default=False
    )

    def body(self, names: Sequence[str]) -> dict[str, Any]:
        if self.detach and self.mode is GatherMode.WAIT:
            raise InputError("--detach cannot be combined with --mode wait.")
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
        return parse_duration(self.timeout).total_seconds() if self.timeout else 0.0


@subcommand(
    app,
    "run",
    """muster gather run laboratory pharmacy --timeout 10s --context '{"patient": "17"}'""",
    "muster gather run laboratory clinic=https://clinic.example.com/ask --mode wait --json",
)
async def run(
    options: GatherOptions,
    shell: CommandContext,
    names: list[str] = argument("Registered resources, or NAME=URL for others.", metavar="NAME…"),
) -> None:
    """Ask resources, and print their answers as they arrive.

    Exit code 0 if every resource answered, 1 if any did not. Ctrl-C cancels the gather, unless it
    was started with --detach. With --json each answer is one line of JSON.
    """
    body = options.body(names)
    async with shell.connect() as client:
        reply = await client.post(PATH, body, server_wait=options.seconds)
        if options.mode is GatherMode.WAIT:
            shell.print(reply, _view(reply))
            _exit_unless_full(reply)
            return
        if shell.as_json and options.detach:
            print_json(reply)
        elif shell.as_json:
            print_json_line({"type": "started", **reply})
        else:
            out.print(pairs(STARTED, reply))
        if not options.detach:
            _exit_unless_full(await _follow(client, str(reply["id"]), shell))


@subcommand(app, "show", "muster gather show 3f9ac1d2")
async def show(gather_id: GatherIdArgument, shell: CommandContext) -> None:
    """Show one gather: which resources answered, which did not, and their answers."""
    found = await shell.call("get", join_path(PATH, gather_id))
    shell.print(found, _view(found))


@subcommand(app, "stream", "muster gather stream 3f9ac1d2 --json")
async def stream(gather_id: GatherIdArgument, shell: CommandContext) -> None:
    """Follow a gather from its first answer to its summary.

    A broken connection is resumed where it broke. Exit code 0 if every resource answered, 1 if
    any did not. With --json each event is one line of JSON.
    """
    async with shell.connect() as client:
        _exit_unless_full(await _follow(client, gather_id, shell))


@subcommand(app, "cancel", "muster gather cancel 3f9ac1d2")
async def cancel(gather_id: GatherIdArgument, shell: CommandContext) -> None:
    """Cancel a gather that has not ended."""
    ended = await shell.call("delete", join_path(PATH, gather_id))
    shell.print(ended, f"Gather {gather_id} is cancelled.")


async def _follow(client: Client, gather_id: str, shell: CommandContext) -> Mapping[str, Any]:
    """Print every event; return the summary."""
    path = join_path(PATH, gather_id) + "/stream"
    last: Mapping[str, Any] = {}
    async for event in follow_stream(client, path, last_kind=SUMMARY, on_break=print_reconnecting):
        last = event.data()
        if shell.as_json:
            print_json_line({"id": event.event_id, "type": event.kind, **last})
        else:
            out.print(_line(event.kind, last), soft_wrap=True)
    return last


def _exit_unless_full(gather: Mapping[str, Any]) -> None:
    if gather.get("completeness") != "full":
        raise typer.Exit(1)


def _view(gather: Document) -> RenderableType:
    resources = gather.get("resources") or {}
    rows = [{"resource": name, **state} for name, state in resources.items()]
    return sections(pairs(DETAILS, gather), table(RESOURCES, rows))


def _line(kind: str, data: Document) -> Text:
    """Write one event of the stream: when, the state, the resource, and its answer."""
    line = fmt.dim(f"{fmt.clock_time(data.get('at'))}  ")
    if kind == SUMMARY:
        style = _COMPLETENESS_STYLES.get(str(data.get("completeness")), "")
        return line.append(f"{data.get('status')}  ", style).append(counts_in_words(data))
    status = str(data.get("status"))
    line.append(f"{status:<{_WIDTH}}  ", style=STATE_STYLES.get(status, ""))
    line.append(str(data.get("source")))
    if data.get("detail"):
        line.append(f"  {data['detail']}")
    if data.get("data") is not None:
        line.append(f"  {fmt.one_line(data['data'])}", style="dim")
    return line


def parse_resource(text: str) -> str | dict[str, str]:
    """Read a registered name, or NAME=URL."""
    name, sign, url = text.partition("=")
    if not name or (sign and not url):
        raise InputError(f"'{text}' is not a resource: write its name, or NAME=URL.")
    return {"name": name, "url": url} if sign else name
