"""What people do with deliveries: one of them, some by their ids, or many with progress."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.dispatch.bulk import count_in_words, print_bulk_result, requests_by_ids, run_bulk
from cli.dispatch.job_choice import (
    PATH,
    JobFilterOptions,
    JobIdArgument,
    job_path,
    query_params,
    require_job_id,
)
from cli.dispatch.job_views import job_status
from cli.shell.client import Client
from cli.shell.confirm import confirm
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.tables import Document
from core.dispatch.job_actions import JobAction

JobIdsArgument = Annotated[list[str] | None, typer.Argument(help="Ids of jobs.", metavar="ID")]
_DONE = {
    JobAction.REQUEUE: "queued again",
    JobAction.CANCEL: "cancelled",
    JobAction.COMPLETE: "called completed",
    JobAction.IGNORE: "put aside",
}
_QUESTIONS = {
    JobAction.REQUEUE: "Deliver {many} again?",
    JobAction.CANCEL: "Cancel {many}?",
    JobAction.COMPLETE: "Call {many} completed?",
    JobAction.IGNORE: "Put {many} aside?",
}
# What each verb is done with, where nobody says otherwise; Muster takes the same.
_DEFAULT_STATUSES = {
    JobAction.REQUEUE: ["ERROR"],
    JobAction.CANCEL: ["QUEUED", "PENDING"],
    JobAction.COMPLETE: ["ERROR"],
    JobAction.IGNORE: ["ERROR"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobActionOptions(JobFilterOptions):
    """Which jobs to change."""

    everything: Annotated[
        bool, typer.Option("--all", help="Every job that this is usually done with.")
    ] = False
    batch: Annotated[int, typer.Option(min=1, max=500, help="How many at a time.")] = 100
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False


@command
async def requeue(
    options: JobActionOptions, shell: CommandContext, ids: JobIdsArgument = None
) -> None:
    """Deliver jobs again as if they were new: attempts from the first on.

    Name ids, or filters, or --all, which is every job that failed. Their idempotency keys stay.
    Exit code 1 if any was left as it is.
    """
    await _apply(JobAction.REQUEUE, ids or [], options, shell)


@command
async def cancel(
    options: JobActionOptions, shell: CommandContext, ids: JobIdsArgument = None
) -> None:
    """Cancel jobs that wait or have failed; nobody delivers them any more.

    Name ids, or filters, or --all, which is every job that waits. Exit code 1 if any was left as
    it is.
    """
    await _apply(JobAction.CANCEL, ids or [], options, shell)


@command
async def complete(
    options: JobActionOptions, shell: CommandContext, ids: JobIdsArgument = None
) -> None:
    """Call failed jobs completed: what they were for has happened some other way.

    Name ids, or filters, or --all, which is every job that failed. Exit code 1 if any was left as
    it is.
    """
    await _apply(JobAction.COMPLETE, ids or [], options, shell)


@command
async def ignore(
    options: JobActionOptions, shell: CommandContext, ids: JobIdsArgument = None
) -> None:
    """Put failed jobs aside; what they blocked goes on.

    Name ids, or filters, or --all, which is every job that failed. Exit code 1 if any was left as
    it is.
    """
    await _apply(JobAction.IGNORE, ids or [], options, shell)


@command
async def resend(job_id: JobIdArgument, shell: CommandContext) -> None:
    """Deliver once more what was delivered; its idempotency key stays the same."""
    async with shell.connect() as client:
        job = await client.post(job_path(job_id, "resend"), {})
    if shell.as_json:
        print_json(job)
    else:
        out.print(f"Job {job_id} is delivered once more.", markup=False)


async def _apply(
    verb: JobAction, ids: list[str], options: JobActionOptions, shell: CommandContext
) -> None:
    async with shell.connect() as client:
        conditions = await options.conditions(client)
        if [bool(ids), bool(conditions), options.everything].count(True) != 1:
            raise InputError("Name jobs: ids, or filters such as --group, or --all.")
        if len(ids) == 1:
            job = await client.post(job_path(ids[0], verb.value), {})
            print_json(job) if shell.as_json else out.print(_line(verb, job))
            return
        if ids:
            total, requests = len(ids), requests_by_ids([require_job_id(one) for one in ids])
        else:
            total, requests = await _count(client, verb, conditions), [conditions or {"all": True}]
            if total:
                confirm(_QUESTIONS[verb].format(many=count_in_words(total)), yes=options.yes)
        limited = [{**request, "limit": options.batch} for request in requests]
        outcome = await run_bulk(client, f"{PATH}/{verb.value}", limited, total, shell)
    print_bulk_result(outcome, _DONE[verb], shell)


async def _count(client: Client, verb: JobAction, conditions: dict[str, Any]) -> int:
    """How many jobs are meant."""
    chosen = {"status": _DEFAULT_STATUSES[verb], **query_params(conditions)}
    if chosen["status"] == ["ERROR"]:
        chosen.setdefault("ignored", "false")
    page = await client.get(PATH, {**chosen, "page": 0, "size": 1})
    return int(page["totalItems"])


def _line(verb: JobAction, job: Document) -> Text:
    return Text(f"Job {job['id']} is {_DONE[verb]}: ").append_text(job_status(job))
