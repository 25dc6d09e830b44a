"""`muster tail`: the live log of a wait state."""

from typing import Annotated, Any

import typer
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, out, print_json_line, single_command
from cli.shell.follow import ENDED, follow, print_reconnecting

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


@single_command("muster tail order-17 payment")
async def tail(
    execution_id: ExecutionId, correlation_id: CorrelationId, shell: CommandContext
) -> None:
    """Follow the log of a wait state, from its registration to its result.

    A broken connection is resumed where it broke. Exit code 0 if the wait completed, 1 if it
    ended otherwise. With --json each entry is one line of JSON.
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
                _print(event.kind, entry)
    if status != "completed":
        raise typer.Exit(1)


def entry_sentence(kind: str, entry: dict[str, Any]) -> str:
    """Write one entry of the log in words."""
    origin = " ".join(str(part) for part in (entry.get("source"), entry.get("label")) if part)
    match kind:
        case "registered":
            return f"waiting for {', '.join(entry.get('enabledEvents') or ['nothing'])}"
        case "ended":
            return f"{entry.get('status')}: {entry.get('reason')}"
        case "timed_out":
            return f"{entry.get('event')} did not arrive in time"
        case "late" | "duplicate" | "rejected":
            return f"{entry.get('event') or 'event'} from {origin} does not count: {kind}"
        case _:
            return f"{entry.get('event')} from {origin}".removesuffix(" from ")


def _print(kind: str, entry: dict[str, Any]) -> None:
    line = Text(f"{fmt.clock_time(entry.get('at'))}  ", style="dim")
    line.append(f"{kind:<11}", STYLES.get(str(entry.get("status")) if kind == ENDED else kind, ""))
    line.append(entry_sentence(kind, entry))
    if entry.get("data") is not None:
        line.append("  " + fmt.one_line(entry["data"]), style="dim")
    out.print(line, soft_wrap=True)
    if kind != ENDED:
        return
    if entry.get("warning"):
        out.print(Text(f"warning: {entry['warning']}", style="yellow"), soft_wrap=True)
    if entry.get("output") is not None:
        out.print_json(data=entry["output"])
