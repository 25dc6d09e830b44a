"""`muster kafka redrive`: dead letters, handled again."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.text import Text

from cli.kafka.dead_letters import partition_offset
from cli.shell import formats as fmt
from cli.shell.bulk import BatchOption, change_all, requests_by_ids
from cli.shell.context import CommandContext, command, out, print_error, print_json
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


@dataclass(slots=True)
class RedriveSummary:
    """The sum of all answers."""

    handled: int = 0
    failed: int = 0
    already_handled: int = 0
    remaining: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.handled + self.failed + self.already_handled + len(self.unknown)

    def add(self, reply: dict[str, Any]) -> None:
        self.handled += reply["handled"]
        self.failed += reply["failed"]
        self.already_handled += reply["alreadyHandled"]
        self.remaining = reply["remaining"]
        self.failures += reply["failures"]
        self.unknown += reply["unknown"]
        self.verdicts.update(reply["verdicts"])

    def document(self) -> dict[str, Any]:
        return {
            "handled": self.handled,
            "failed": self.failed,
            "alreadyHandled": self.already_handled,
            "verdicts": self.verdicts,
            "failures": self.failures,
            "unknown": self.unknown,
        }

    def line(self) -> Text:
        verdicts = ", ".join(f"{name} {count}" for name, count in self.verdicts.items())
        line = Text(f"{self.handled} handled", style="green" if self.handled else "")
        line.append(f" ({verdicts})" if verdicts else "", style="default")
        line.append(f", {self.failed} failed again", style="red" if self.failed else "")
        if self.already_handled:
            line.append(f", {self.already_handled} handled before", style="default")
        return line


@command
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
    summary, total = RedriveSummary(), len(set(ids or ()))
    async with shell.connect() as client:
        await change_all(client, PATH, limited, summary, total=total, shown=not shell.as_json)
    print_json(summary.document()) if shell.as_json else _print(summary)
    if summary.failed or summary.unknown:
        raise typer.Exit(1)


def _print(summary: RedriveSummary) -> None:
    out.print(summary.line())
    if summary.failures:
        out.print(first_rows(FAILURES, summary.failures))
    if summary.unknown:
        print_error(f"There is no dead letter {', '.join(map(str, summary.unknown))}.")
