"""What people do with jobs: with one, with some by their ids, or with many by filters."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.dispatch.job_filters import (
    PATH,
    STATUS,
    JobFilterOptions,
    JobIdArgument,
    job_path,
    job_status,
    require_job_id,
)
from cli.shell.bulk import BatchOption, YesOption, change_all, requests_by_ids
from cli.shell.client import Client
from cli.shell.confirm import confirm
from cli.shell.context import AsyncCommand, CommandContext, out, print_error, print_json
from cli.shell.errors import InputError
from cli.shell.options import option
from cli.shell.output import columns, first_rows
from core.dispatch.job_actions import JobAction

JobIdsArgument = Annotated[list[str] | None, typer.Argument(help="Ids of jobs.", metavar="ID")]
MAX_COUNTED = 10_000
_REASONS = {
    "unknown": "no such job",
    "in_progress": "it is being delivered",
    "not_failed": "it has not failed",
    "ended": "it has already ended",
    "pool_archived": "its pool is archived",
}
REFUSALS = columns(
    "id",
    ("status", "status", STATUS),
    ("reason", "result", lambda result: _REASONS.get(str(result), str(result))),
)


@dataclass(frozen=True, slots=True)
class _ActionWords:
    """How an action is described, and the statuses that it changes unless filters name others."""

    summary: str
    done: str
    question: str
    usual: str = "failed"
    statuses: tuple[str, ...] = ("ERROR",)

    @property
    def help(self) -> str:
        return (
            f"{self.summary}\n\nName ids, or filters, or --all for every {self.usual} job. "
            "Exit code 1 if any job could not be changed."
        )


_ACTIONS = {
    JobAction.REQUEUE: _ActionWords(
        "Deliver jobs again as if they were new, with all attempts and the same idempotency keys.",
        "queued again",
        "Deliver {many} again?",
    ),
    JobAction.CANCEL: _ActionWords(
        "Cancel jobs that wait or have failed: they are not delivered any more.",
        "cancelled",
        "Cancel {many}?",
        "waiting",
        ("QUEUED", "PENDING"),
    ),
    JobAction.COMPLETE: _ActionWords(
        "Mark failed jobs as completed, for what was done in another way.",
        "marked as completed",
        "Mark {many} as completed?",
    ),
    JobAction.IGNORE: _ActionWords(
        "Ignore failed jobs: the groups that they blocked continue.", "ignored", "Ignore {many}?"
    ),
}


@dataclass(slots=True)
class BulkResult:
    """The sum of all answers."""

    changed: int = 0
    remaining: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.changed + len(self.refused)

    def add(self, reply: dict[str, Any]) -> None:
        self.changed += reply["changed"]
        self.refused += reply["refused"]
        self.remaining = reply["remaining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobActionOptions:
    everything: bool = option("Every job that the command applies to.", "--all", default=False)
    batch: BatchOption = 100
    yes: YesOption = False


def job_action(action: JobAction) -> AsyncCommand:
    """Make the command of one action."""

    async def run(
        filters: JobFilterOptions,
        options: JobActionOptions,
        shell: CommandContext,
        ids: JobIdsArgument = None,
    ) -> None:
        async with shell.connect() as client:
            await _apply(client, action, ids or [], filters, options, shell)

    run.__doc__ = _ACTIONS[action].help
    return run


async def resend(job_id: JobIdArgument, shell: CommandContext) -> None:
    """Deliver a completed job once more, with the same idempotency key."""
    job = await shell.call("post", job_path(job_id, "resend"), body={})
    shell.print(job, f"Job {job_id} is queued to be delivered once more.")


async def run_bulk(
    client: Client, path: str, requests: list[dict[str, Any]], total: int, shell: CommandContext
) -> BulkResult:
    """Make the requests, each until nothing remains of it."""
    result = BulkResult()
    await change_all(client, path, requests, result, total=total, shown=not shell.as_json)
    return result


def print_bulk_result(result: BulkResult, done: str, shell: CommandContext) -> None:
    """Print what was changed; exit with 1 if a job was not."""
    if shell.as_json:
        print_json({"changed": result.changed, "refused": result.refused})
    else:
        style = "green" if result.changed else "dim"
        out.print(f"{count_in_words(result.changed)} {done}.", style=style)
        if result.refused:
            print_error(f"{count_in_words(len(result.refused))} not changed:")
            out.print(first_rows(REFUSALS, result.refused))
    if result.refused:
        raise typer.Exit(1)


def count_in_words(count: int, max_counted: int | None = None) -> str:
    """Write a count of jobs; Muster counts no further than `max_counted`."""
    words = "1 job" if count == 1 else f"{count:,} jobs"
    return f"{words} or more" if max_counted and count >= max_counted else words


async def _apply(
    client: Client,
    action: JobAction,
    ids: list[str],
    filters: JobFilterOptions,
    options: JobActionOptions,
    shell: CommandContext,
) -> None:
    words = _ACTIONS[action]
    conditions = await filters.conditions(client)
    if [bool(ids), bool(conditions), options.everything].count(True) != 1:
        raise InputError("Name jobs by ids, by filters such as --group, or with --all.")
    if len(ids) == 1:
        job = await client.post(job_path(ids[0], action.value), {})
        sentence = Text(f"Job {job['id']} is {words.done}: ")
        shell.print(job, sentence.append_text(job_status(job)))
        return
    if ids:
        total, requests = len(ids), requests_by_ids([require_job_id(one) for one in ids])
    else:
        total, requests = await _count(client, words, conditions), [conditions or {"all": True}]
        if total:
            many = count_in_words(total, MAX_COUNTED)
            confirm(words.question.format(many=many), yes=options.yes)
    limited = [{**request, "limit": options.batch} for request in requests]
    result = await run_bulk(client, f"{PATH}/{action.value}", limited, total, shell)
    print_bulk_result(result, words.done, shell)


async def _count(client: Client, words: _ActionWords, conditions: dict[str, Any]) -> int:
    chosen = {"status": list(words.statuses), **conditions}
    if chosen["status"] == ["ERROR"]:
        chosen.setdefault("ignored", False)
    page = await client.get(PATH, {**chosen, "page": 0, "size": 1})
    return int(page["totalItems"])
