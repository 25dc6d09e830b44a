"""What people do with jobs: with one, with some by their ids, with many by filters or by time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.dispatch.job_filters import (
    PATH,
    STATUS,
    JobFilterOptions,
    job_status,
    jobs,
    resolve_subscription,
)
from cli.shell.bulk import BatchOption, change_all, requests_by_ids
from cli.shell.client import Client
from cli.shell.context import (
    AsyncCommand,
    CommandContext,
    YesOption,
    confirm,
    out,
    print_error,
    print_json,
)
from cli.shell.errors import InputError
from cli.shell.options import option, request_fields
from cli.shell.output import columns, first_rows
from cli.shell.parsing import parse_time
from core.dispatch.job import JobStatus
from core.dispatch.job_actions import JobAction

JobIdsArgument = Annotated[list[str] | None, typer.Argument(help="Ids of jobs.", metavar="ID")]
MAX_COUNTED = 10_000
_PAGE = 500
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


async def change_jobs(
    client: Client,
    verb: str,
    requests: list[dict[str, Any]],
    total: int,
    done: str,
    shell: CommandContext,
) -> None:
    """Make the requests and print what was changed; exit with 1 if a job was not."""
    result = await change_all(
        client,
        f"{PATH}/{verb}",
        requests,
        lambda result: result["changed"] + len(result["refused"]),
        total=total,
        shown=not shell.as_json,
    )
    changed, refused = result["changed"], result["refused"]
    if shell.as_json:
        print_json({"changed": changed, "refused": refused})
    else:
        out.print(f"{count_in_words(changed)} {done}.", style="green" if changed else "dim")
        if refused:
            print_error(f"{count_in_words(len(refused))} not changed:")
            out.print(first_rows(REFUSALS, refused))
    if refused:
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
    conditions = await resolve_subscription(client, request_fields(filters))
    if [bool(ids), bool(conditions), options.everything].count(True) != 1:
        raise InputError("Name jobs by ids, by filters such as --group, or with --all.")
    if len(ids) == 1:
        job = await client.post(jobs.path_of(ids[0], action.value), {})
        sentence = Text(f"Job {job['id']} is {words.done}: ")
        shell.print(job, sentence.append_text(job_status(job)))
        return
    if ids:
        for one in ids:
            jobs.path_of(one)
        total, requests = len(ids), requests_by_ids(ids)
    else:
        total, requests = await _count(client, words, conditions), [conditions or {"all": True}]
        if total:
            many = count_in_words(total, MAX_COUNTED)
            confirm(words.question.format(many=many), yes=options.yes)
    limited = [{**request, "limit": options.batch} for request in requests]
    await change_jobs(client, action.value, limited, total, words.done, shell)


async def _count(client: Client, words: _ActionWords, conditions: dict[str, Any]) -> int:
    chosen = {"status": list(words.statuses), **conditions}
    if chosen["status"] == ["ERROR"]:
        chosen.setdefault("ignored", False)
    page = await client.get(PATH, {**chosen, "page": 0, "size": 1})
    return int(page["totalItems"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverFilters:
    since: str = option(
        "Jobs that failed since: 2h ago, or a date and time.",
        required=True,
        api="since",
        convert=parse_time,
    )
    until: str | None = option("Jobs that failed before.", api="until", convert=parse_time)
    subscription: str | None = option(
        "Only jobs of this subscription, by code or id.", api="subscriptionId"
    )
    pool: str | None = option("Only jobs of this pool.")


async def recover(
    filters: RecoverFilters,
    shell: CommandContext,
    dry_run: bool = option(
        "Only show which jobs would be delivered again.", "--dry-run", default=False
    ),
    batch: BatchOption = 100,
    yes: YesOption = False,
) -> None:
    """Deliver again the jobs that failed since a time, oldest first.

    Ignored jobs stay ignored. If it is interrupted, run it again. Exit code 1 if any job could
    not be changed.
    """
    async with shell.connect() as client:
        body = await resolve_subscription(client, request_fields(filters))
        failed = [job async for job in _failed(client, body)]
        many = count_in_words(len(failed), MAX_COUNTED)
        if dry_run:
            _show(failed, many, shell)
            return
        if failed:
            confirm(f"Deliver {many} again?", yes=yes)
        requests = [{**body, "limit": batch}]
        await change_jobs(client, "recover", requests, len(failed), "queued again", shell)


def _show(failed: list[Any], many: str, shell: CommandContext) -> None:
    if shell.as_json:
        print_json({"count": len(failed), "items": failed})
        return
    out.print(f"{many} would be delivered again.")
    if failed:
        out.print(first_rows(jobs.listing, failed))


async def _failed(client: Client, body: dict[str, Any]) -> AsyncIterator[Any]:
    """Yield the failed jobs that are meant, newest first, up to a limit.

    Listings filter by the time of creation, so the time of the last attempt is compared here.
    """
    chosen: dict[str, Any] = {"status": [JobStatus.ERROR.value], "ignored": False, "limit": _PAGE}
    chosen |= {name: body[name] for name in ("subscriptionId", "pool") if name in body}
    since, until = (_seconds(body.get(name)) for name in ("since", "until"))
    cursor, count = None, 0
    while True:
        page = await client.get(PATH, {**chosen, "cursor": cursor})
        for job in page["items"]:
            at = _seconds(job.get("lastAttemptAt"))
            if at is not None and at >= (since or 0) and (until is None or at < until):
                yield job
                count += 1
        cursor = page.get("nextCursor")
        if cursor is None or count >= MAX_COUNTED:
            return


def _seconds(moment: Any) -> float | None:
    return datetime.fromisoformat(str(moment)).timestamp() if moment else None
