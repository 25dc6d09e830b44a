"""`muster jobs recover`: jobs that failed since a time, delivered again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cli.dispatch.job_actions import MAX_COUNTED, count_in_words, print_bulk_result, run_bulk
from cli.dispatch.job_filters import (
    JOBS,
    PATH,
    resolve_subscription,
)
from cli.shell.bulk import BatchOption, YesOption
from cli.shell.client import Client
from cli.shell.confirm import confirm
from cli.shell.context import CommandContext, out, print_json
from cli.shell.options import option, request_fields
from cli.shell.output import first_rows
from cli.shell.parsing import parse_time
from cli.shell.resource import page_items
from core.dispatch.job import JobStatus

_PAGE = 500


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
    conditions = request_fields(filters)
    async with shell.connect() as client:
        body = await resolve_subscription(client, conditions)
        failed = [job async for job in _failed(client, body)]
        many = count_in_words(len(failed), MAX_COUNTED)
        if dry_run:
            _show(failed, many, shell)
            return
        if failed:
            confirm(f"Deliver {many} again?", yes=yes)
        requests = [{**body, "limit": batch}]
        result = await run_bulk(client, f"{PATH}/recover", requests, len(failed), shell)
    print_bulk_result(result, "queued again", shell)


def _show(failed: list[Any], many: str, shell: CommandContext) -> None:
    if shell.as_json:
        print_json({"count": len(failed), "items": failed})
        return
    out.print(f"{many} would be delivered again.")
    if failed:
        out.print(first_rows(JOBS, failed))


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
        for job in page_items(page):
            at = _seconds(job.get("lastAttemptAt"))
            if at is not None and at >= (since or 0) and (until is None or at < until):
                yield job
                count += 1
        cursor = page.get("nextCursor")
        if cursor is None or count >= MAX_COUNTED:
            return


def _seconds(moment: Any) -> float | None:
    return datetime.fromisoformat(str(moment)).timestamp() if moment else None
