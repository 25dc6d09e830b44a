"""`muster jobs recover`: what failed since a time, delivered again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.dispatch.bulk import MAX_COUNTED, count_in_words, print_bulk_result, run_bulk
from cli.dispatch.job_choice import PATH, PoolFilterOption, SubscriptionFilterOption
from cli.dispatch.job_views import jobs_view
from cli.dispatch.parsing import parse_time
from cli.dispatch.subscriptions import subscription_id
from cli.shell.client import Client
from cli.shell.confirm import confirm
from cli.shell.context import CommandContext, command, out, print_json
from core.dispatch.job import JobStatus

_PAGE = 500
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOptions:
    """Which failed jobs are meant."""

    since: Annotated[str, typer.Option(help="Those that failed since: 2h ago, or a date and time.")]
    until: Annotated[str | None, typer.Option(help="And before.")] = None
    subscription: SubscriptionFilterOption = None
    pool: PoolFilterOption = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which jobs would be delivered again.")
    ] = False
    batch: Annotated[int, typer.Option(min=1, max=500, help="How many at a time.")] = 100
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False

    async def body(self, client: Client) -> dict[str, Any]:
        """The request."""
        now = datetime.now(UTC)
        given = {
            "since": parse_time(self.since, now),
            "until": parse_time(self.until, now) if self.until else None,
            "subscriptionId": await subscription_id(client, self.subscription),
            "pool": self.pool,
        }
        return {name: value for name, value in given.items() if value is not None}


@command
async def recover(options: RecoverOptions, shell: CommandContext) -> None:
    """Deliver again what failed since a time, oldest first.

    What was put aside stays so. Stopped half way, run it again. Exit code 1 if any was left as
    it is.
    """
    async with shell.connect() as client:
        body = await options.body(client)
        failed = [job async for job in _failed(client, body)]
        if options.dry_run:
            _show(failed, shell)
            return
        if failed:
            confirm(f"Deliver {count_in_words(len(failed))} again?", yes=options.yes)
        outcome = await run_bulk(
            client, f"{PATH}/recover", [{**body, "limit": options.batch}], len(failed), shell
        )
    print_bulk_result(outcome, "queued again", shell)


def _show(failed: list[dict[str, Any]], shell: CommandContext) -> None:
    if shell.as_json:
        print_json({"count": len(failed), "items": failed})
        return
    out.print(f"{count_in_words(len(failed))} would be delivered again.")
    if failed:
        out.print(jobs_view(failed[:_SHOWN]))
    if len(failed) > _SHOWN:
        out.print(f"… and {len(failed) - _SHOWN:,} more", style="dim")


async def _failed(client: Client, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """The failed jobs that are meant, newest first, up to a bound.

    Listings are by the time a job was made, so the time of its last attempt is looked at here.
    """
    chosen: dict[str, Any] = {"status": [JobStatus.ERROR.value], "ignored": "false", "limit": _PAGE}
    chosen |= {name: body[name] for name in ("subscriptionId", "pool") if name in body}
    since, until = (_seconds(body.get(name)) for name in ("since", "until"))
    cursor, many = None, 0
    while True:
        page = await client.get(PATH, {**chosen, "cursor": cursor})
        for job in page["items"]:
            at = _seconds(job.get("lastAttemptAt"))
            if at is not None and at >= (since or 0) and (until is None or at < until):
                yield job
                many += 1
        cursor = page.get("nextCursor")
        if cursor is None or many >= MAX_COUNTED:
            return


def _seconds(moment: Any) -> float | None:
    return datetime.fromisoformat(str(moment)).timestamp() if moment else None
