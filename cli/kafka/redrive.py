"""`muster kafka redrive`: dead letters, handled again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from cli.kafka.views import failures_view, redrive_line
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, out, print_error, print_json
from cli.shell.errors import InputError
from cli.shell.progress import progress

PATH = "/api/dead-letters/redrive"
MAX_IDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveOptions:
    """Which dead letters are meant."""

    topic: Annotated[str | None, typer.Option(help="Those of this topic.")] = None
    error: Annotated[str | None, typer.Option(help="Those with this in their error.")] = None
    everything: Annotated[bool, typer.Option("--all", help="Every open one.")] = False
    batch: Annotated[int, typer.Option(min=1, max=500, help="How many at a time.")] = 100


@dataclass(slots=True)
class RedriveSummary:
    """What all calls together came to."""

    handled: int = 0
    failed: int = 0
    already_handled: int = 0
    remaining: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many letters are done with."""
        return self.handled + self.failed + self.already_handled + len(self.unknown)

    def add(self, reply: dict[str, Any]) -> None:
        """One more call."""
        self.handled += reply["handled"]
        self.failed += reply["failed"]
        self.already_handled += reply["alreadyHandled"]
        self.remaining = reply["remaining"]
        self.failures += reply["failures"]
        self.unknown += reply["unknown"]
        for verdict, count in reply["verdicts"].items():
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + count

    def document(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "handled": self.handled,
            "failed": self.failed,
            "alreadyHandled": self.already_handled,
            "verdicts": self.verdicts,
            "failures": self.failures,
            "unknown": self.unknown,
        }


@command
async def redrive(
    options: RedriveOptions,
    shell: CommandContext,
    ids: Annotated[
        list[int] | None, typer.Argument(help="Ids of dead letters.", metavar="ID", min=1)
    ] = None,
) -> None:
    """Handle dead letters again, oldest first, as if they were read from their topics now.

    Name ids, or --topic and --error, or --all. A letter counts once however often it is tried:
    its event keeps its place in the topic as its id. Stopped half way, run it again. Exit code 1
    if any failed again or is unknown.
    """
    total, summary = len(set(ids or ())), RedriveSummary()
    requests = redrive_requests(options, ids or [])
    async with shell.connect() as client:
        with progress("redriving", total or None, shown=not shell.as_json) as show:
            async for reply in _replies(client, requests):
                summary.add(reply)
                show(summary.tried, max(total, summary.tried + summary.remaining))
    print_json(summary.document()) if shell.as_json else _print_summary(summary)
    if summary.failed or summary.unknown:
        raise typer.Exit(1)


def redrive_requests(options: RedriveOptions, ids: list[int]) -> list[dict[str, Any]]:
    """The requests to make; each is repeated until nothing remains of it."""
    filters = {"topic": options.topic, "error": options.error}
    named = {name: text for name, text in filters.items() if text is not None}
    if [bool(ids), bool(named), options.everything].count(True) != 1:
        raise InputError("Name dead letters: ids, or --topic and --error, or --all.")
    limit = {"limit": options.batch}
    if not ids:
        return [{**(named or {"all": True}), **limit}]
    unique = sorted(set(ids))
    starts = range(0, len(unique), MAX_IDS)
    return [{"ids": unique[start : start + MAX_IDS], **limit} for start in starts]


async def _replies(client: Client, requests: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    for request in requests:
        cursor: str | None = None
        while True:
            reply = await client.post(PATH, {**request, "cursor": cursor})
            yield reply
            cursor = reply["nextCursor"]
            if cursor is None:
                break


def _print_summary(summary: RedriveSummary) -> None:
    out.print(redrive_line(summary.document()))
    if summary.failures:
        out.print(failures_view(summary.failures))
    if summary.unknown:
        print_error(f"There is no dead letter {', '.join(map(str, summary.unknown))}.")
