"""What people do with deliveries: one of them, some by their ids, or many with progress."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.dispatch.bulk import by_ids, carry_out, counted, tell
from cli.dispatch.job_choice import PATH, JobFilter, JobId, checked_id, job_path, params_of
from cli.dispatch.job_views import job_status
from cli.shell.client import Client
from cli.shell.confirm import confirm
from cli.shell.context import Shell, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.tables import Document
from core.dispatch.job_actions import Verb

Ids = Annotated[list[str] | None, typer.Argument(help="Ids of jobs.", metavar="ID")]
_DONE = {
    Verb.REQUEUE: "queued again",
    Verb.CANCEL: "cancelled",
    Verb.COMPLETE: "called completed",
    Verb.IGNORE: "put aside",
}
_QUESTIONS = {
    Verb.REQUEUE: "Deliver {many} again?",
    Verb.CANCEL: "Cancel {many}?",
    Verb.COMPLETE: "Call {many} completed?",
    Verb.IGNORE: "Put {many} aside?",
}
# What each verb is done with, where nobody says otherwise; Muster takes the same.
_USUAL = {
    Verb.REQUEUE: ["ERROR"],
    Verb.CANCEL: ["QUEUED", "PENDING"],
    Verb.COMPLETE: ["ERROR"],
    Verb.IGNORE: ["ERROR"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(JobFilter):
    """Which jobs to change."""

    everything: Annotated[
        bool, typer.Option("--all", help="Every job that this is usually done with.")
    ] = False
    batch: Annotated[int, typer.Option(min=1, max=500, help="How many at a time.")] = 100
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False


@command
async def requeue(choice: Choice, shell: Shell, ids: Ids = None) -> None:
    """Deliver jobs again as if they were new: attempts from the first on.

    Name ids, or filters, or --all, which is every job that failed. Their idempotency keys stay.
    Exit code 1 if any was left as it is.
    """
    await _apply(Verb.REQUEUE, ids or [], choice, shell)


@command
async def cancel(choice: Choice, shell: Shell, ids: Ids = None) -> None:
    """Cancel jobs that wait or have failed; nobody delivers them any more.

    Name ids, or filters, or --all, which is every job that waits. Exit code 1 if any was left as
    it is.
    """
    await _apply(Verb.CANCEL, ids or [], choice, shell)


@command
async def complete(choice: Choice, shell: Shell, ids: Ids = None) -> None:
    """Call failed jobs completed: what they were for has happened some other way.

    Name ids, or filters, or --all, which is every job that failed. Exit code 1 if any was left as
    it is.
    """
    await _apply(Verb.COMPLETE, ids or [], choice, shell)


@command
async def ignore(choice: Choice, shell: Shell, ids: Ids = None) -> None:
    """Put failed jobs aside; what they blocked goes on.

    Name ids, or filters, or --all, which is every job that failed. Exit code 1 if any was left as
    it is.
    """
    await _apply(Verb.IGNORE, ids or [], choice, shell)


@command
async def resend(job_id: JobId, shell: Shell) -> None:
    """Deliver once more what was delivered; its idempotency key stays the same."""
    async with shell.connect() as client:
        job = await client.post(job_path(job_id, "resend"), {})
    if shell.as_json:
        print_json(job)
    else:
        out.print(f"Job {job_id} is delivered once more.", markup=False)


async def _apply(verb: Verb, ids: list[str], choice: Choice, shell: Shell) -> None:
    async with shell.connect() as client:
        conditions = await choice.conditions(client)
        if [bool(ids), bool(conditions), choice.everything].count(True) != 1:
            raise InputError("Name jobs: ids, or filters such as --group, or --all.")
        if len(ids) == 1:
            job = await client.post(job_path(ids[0], verb.value), {})
            print_json(job) if shell.as_json else out.print(_line(verb, job))
            return
        if ids:
            asked, wishes = len(ids), by_ids([checked_id(one) for one in ids])
        else:
            asked, wishes = await _count(client, verb, conditions), [conditions or {"all": True}]
            if asked:
                confirm(_QUESTIONS[verb].format(many=counted(asked)), yes=choice.yes)
        limited = [{**wish, "limit": choice.batch} for wish in wishes]
        outcome = await carry_out(client, f"{PATH}/{verb.value}", limited, asked, shell)
    tell(outcome, _DONE[verb], shell)


async def _count(client: Client, verb: Verb, conditions: dict[str, Any]) -> int:
    """How many jobs are meant."""
    chosen = {"status": _USUAL[verb], **params_of(conditions)}
    if chosen["status"] == ["ERROR"]:
        chosen.setdefault("ignored", "false")
    page = await client.get(PATH, {**chosen, "page": 0, "size": 1})
    return int(page["totalItems"])


def _line(verb: Verb, job: Document) -> Text:
    return Text(f"Job {job['id']} is {_DONE[verb]}: ").append_text(job_status(job))
