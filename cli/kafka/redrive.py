"""`muster kafka redrive`: dead letters, handled again."""

from dataclasses import dataclass

import typer
from rich.text import Text

from cli.kafka.dead_letters import partition_offset
from cli.shell import formats as fmt
from cli.shell.bulk import BatchOption, change_all, requests_by_ids
from cli.shell.client import Document
from cli.shell.context import CommandContext, out, print_error, print_json, single_command
from cli.shell.errors import InputError
from cli.shell.options import argument, option, request_fields
from cli.shell.output import columns, first_rows

PATH = "/api/dead-letters/redrive"
FAILURES = columns(
    ("id", "letterId", fmt.RightAligned(fmt.text)),
    "topic",
    ("partition/offset", partition_offset),
    ("error", "error", fmt.error),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveFilters:
    topic: str | None = option("Dead letters of this topic.")
    error: str | None = option("Dead letters whose error contains this text.")


@single_command("muster kafka redrive --topic payments")
async def redrive(
    filters: RedriveFilters,
    shell: CommandContext,
    ids: list[int] | None = argument("Ids of dead letters.", default=None, metavar="ID", min=1),
    everything: bool = option("Every open dead letter.", "--all", default=False),
    batch: BatchOption = 100,
) -> None:
    """Handle dead letters again, oldest first, as if their messages were read now.

    Name ids, or --topic and --error, or --all. A message counts once however often it is handled,
    because its topic, partition and offset are its id. If it is interrupted, run it again. Exit
    code 1 if any failed again or does not exist.
    """
    selected = request_fields(filters)
    if [bool(ids), bool(selected), everything].count(True) != 1:
        raise InputError("Name dead letters by ids, with --topic and --error, or with --all.")
    requests = requests_by_ids(sorted(ids)) if ids else [selected or {"all": True}]
    limited = [{**request, "limit": batch} for request in requests]
    total = len(set(ids or ()))
    async with shell.connect() as client:
        summary = await change_all(
            client, PATH, limited, _count_tried, total=total, shown=not shell.as_json
        )
    print_json(summary) if shell.as_json else _print(summary)
    if summary["failed"] or summary["unknown"]:
        raise typer.Exit(1)


def _count_tried(summary: Document) -> int:
    counted = int(summary["handled"] + summary["failed"] + summary["alreadyHandled"])
    return counted + len(summary["unknown"])


def _print(summary: Document) -> None:
    handled, failed, before = (summary[name] for name in ("handled", "failed", "alreadyHandled"))
    verdicts = ", ".join(f"{name} {count}" for name, count in summary["verdicts"].items())
    line = Text(f"{handled} handled", style="green" if handled else "")
    line.append(f" ({verdicts})" if verdicts else "", style="default")
    line.append(f", {failed} failed again", style="red" if failed else "")
    line.append(f", {before} handled before" if before else "", style="default")
    out.print(line)
    if summary["failures"]:
        out.print(first_rows(FAILURES, summary["failures"]))
    if summary["unknown"]:
        print_error(f"There is no dead letter {', '.join(map(str, summary['unknown']))}.")
