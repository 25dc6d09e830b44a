"""Many deliveries changed in bounded calls, with a bar where somebody looks."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer

from cli.dispatch.job_views import refusals_view
from cli.shell.client import Client
from cli.shell.context import CommandContext, out, print_error, print_json
from cli.shell.progress import progress

MAX_IDS = 500
MAX_COUNTED = 10_000


@dataclass(slots=True)
class BulkResult:
    """What all calls together came to."""

    changed: int = 0
    remaining: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many jobs are done with."""
        return self.changed + len(self.refused)

    def add(self, reply: dict[str, Any]) -> None:
        """One more call."""
        self.changed += reply["changed"]
        self.refused += reply["refused"]
        self.remaining = reply["remaining"]

    def document(self) -> dict[str, Any]:
        """For scripts."""
        return {"changed": self.changed, "refused": self.refused}


def requests_by_ids(ids: Sequence[str]) -> list[dict[str, Any]]:
    """The requests for these jobs, each of a size that Muster takes."""
    unique = list(dict.fromkeys(ids))
    return [{"ids": unique[at : at + MAX_IDS]} for at in range(0, len(unique), MAX_IDS)]


async def run_bulk(
    client: Client, path: str, requests: Sequence[dict[str, Any]], total: int, shell: CommandContext
) -> BulkResult:
    """Make the requests, each until nothing remains of it."""
    outcome = BulkResult()
    with progress("jobs", total or None, shown=not shell.as_json) as show:
        async for reply in _replies(client, path, requests):
            outcome.add(reply)
            show(outcome.tried, max(total, outcome.tried + outcome.remaining))
    return outcome


def print_bulk_result(outcome: BulkResult, done: str, shell: CommandContext) -> None:
    """What it came to; exit code 1 if a job was left as it is."""
    if shell.as_json:
        print_json(outcome.document())
    else:
        style = "green" if outcome.changed else "dim"
        out.print(f"{jobs_in_words(outcome.changed)} {done}.", style=style)
        if outcome.refused:
            print_error(f"{jobs_in_words(len(outcome.refused))} left as before:")
            out.print(refusals_view(outcome.refused))
    if outcome.refused:
        raise typer.Exit(1)


def jobs_in_words(many: int) -> str:
    """A count of jobs."""
    return "1 job" if many == 1 else f"{many:,} jobs"


def count_in_words(many: int) -> str:
    """The same where Muster counts to a bound."""
    return f"{many:,} jobs or more" if many >= MAX_COUNTED else jobs_in_words(many)


async def _replies(
    client: Client, path: str, requests: Sequence[dict[str, Any]]
) -> AsyncIterator[dict[str, Any]]:
    for request in requests:
        cursor: str | None = None
        while True:
            reply = await client.post(path, {**request, **({"cursor": cursor} if cursor else {})})
            yield reply
            cursor = reply["nextCursor"]
            if cursor is None:
                break
