"""`muster tail`: the live log of a wait state."""

import json
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.shell.context import CommandContext, command, err, out, print_json_line
from cli.shell.sse import ServerEvent
from cli.waits.follow import ENDED, entry_sentence, follow

ExecutionId = Annotated[str, typer.Argument(help="Execution id.", metavar="EXECUTION")]
CorrelationId = Annotated[str, typer.Argument(help="Correlation id.", metavar="CORRELATION")]

STYLES = {
    "registered": "cyan",
    "received": "green",
    "timed_out": "red",
    "failed": "red",
    "rejected": "red",
    "late": "yellow",
    "duplicate": "yellow",
    "completed": "bold green",
    "timeout": "bold red",
    "cancelled": "bold yellow",
}


@command
async def tail(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Follow the log of a wait state, from its registration to its result.

    Broken connections are taken up again where they broke. Ends with exit code 0 if the wait
    completed and 1 if it ended otherwise. With --json each entry is one line of JSON.
    """
    status = None
    async with shell.connect() as client:
        async for event in follow(
            client, execution_id, correlation_id, on_break=print_reconnecting
        ):
            entry = event.data()
            if event.kind == ENDED:
                status = entry.get("status")
            if shell.as_json:
                print_json_line({"id": event.event_id, "type": event.kind, **entry})
            else:
                _print(event, entry)
    if status != "completed":
        raise typer.Exit(1)


def entry_line(kind: str, entry: dict[str, Any]) -> Text:
    """One entry as a line: when, what, in words."""
    style = STYLES.get(str(entry.get("status")) if kind == ENDED else kind, "")
    line = Text(f"{local_clock_time(entry.get('at'))}  ", style="dim")
    line.append(f"{kind:<11}", style=style)
    line.append(entry_sentence(kind, entry))
    if "data" in entry and entry["data"] is not None:
        line.append("  " + one_line(entry["data"]), style="dim")
    return line


def _print(event: ServerEvent, entry: dict[str, Any]) -> None:
    out.print(entry_line(event.kind, entry), soft_wrap=True)
    if event.kind != ENDED:
        return
    if entry.get("warning"):
        out.print(Text(f"warning: {entry['warning']}", style="yellow"), soft_wrap=True)
    if entry.get("output") is not None:
        out.print_json(data=entry["output"])


def local_clock_time(at: Any) -> str:
    """A moment on the clock of this machine, to the millisecond."""
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError:
        return " " * len("00:00:00.000")
    return moment.astimezone().strftime("%H:%M:%S.%f")[:-3]


def one_line(data: Any, limit: int = 120) -> str:
    """A payload on one line."""
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def print_reconnecting(reason: str) -> None:
    """A stream broke off and is taken up again."""
    err.print(f"{reason} Trying again …", style="yellow", markup=False, soft_wrap=True)
