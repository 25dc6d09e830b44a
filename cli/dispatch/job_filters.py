"""Jobs as a resource of the API: ids, filters, and the columns of a listing."""

from dataclasses import dataclass
from typing import Any

from rich.text import Text

from cli.dispatch.subscriptions import subscription_id
from cli.shell import formats as fmt
from cli.shell.client import Client, Document
from cli.shell.options import argument, option
from cli.shell.output import columns
from cli.shell.parsing import parse_time
from cli.shell.resource import ApiResource
from core.dispatch.job import JobStatus, Kind
from core.shared.tsid import PATTERN

PATH = "/api/dispatch-jobs"
STATUS = fmt.styled(
    {
        "PENDING": "cyan",
        "QUEUED": "cyan",
        "IN_PROGRESS": "bold cyan",
        "COMPLETED": "green",
        "ERROR": "red",
        "CANCELLED": "yellow",
        "EXPIRED": "yellow",
    }
)


def job_status(job: Document) -> Text:
    """Show the status of a job, and whether it is ignored."""
    status = Text().append_text(Text.assemble(STATUS(job.get("status"))))
    return status.append(" (ignored)", style="dim") if job.get("ignored") else status


def attempts(job: Document) -> str:
    return f"{job.get('attemptCount')} of {job.get('maxRetries')}"


jobs = ApiResource(
    "job",
    "jobs",
    PATH,
    argument=argument("The job's id.", metavar="ID"),
    example="0PJ3F6SK81VB8",
    id_pattern=PATTERN,
    listing=columns(
        "id",
        "code",
        ("group", "messageGroup"),
        ("status", job_status),
        ("attempts", attempts),
        ("target", "targetUrl", lambda url: str(url).partition("://")[2]),
        ("age", "createdAt", fmt.age),
        ("error", "lastError", lambda value: fmt.error(fmt.short_line(value))),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilterOptions:
    status: list[JobStatus] | None = option(
        "Only jobs of this status; repeatable.", case_sensitive=False
    )
    kind: Kind | None = option(
        "EVENT jobs come from events, TASK jobs are posted.", case_sensitive=False
    )
    code: str | None = option("Only jobs of this event type.")
    source: str | None = option("Only jobs from this source.")
    subscription: str | None = option(
        "Only jobs of this subscription, by code or id.", api="subscriptionId"
    )
    pool: str | None = option("Only jobs of this pool.")
    group: str | None = option("Only jobs of this message group.", api="messageGroup")
    event: str | None = option("Only jobs of the event with this id.", api="eventId")
    correlation: str | None = option("Only jobs with this correlation id.", api="correlationId")
    client: str | None = option("Only jobs about this client.", api="clientId")
    since: str | None = option(
        "Only jobs created since: 10m ago, or a date and time.",
        api="createdAfter",
        convert=parse_time,
    )
    until: str | None = option("Only jobs created before.", api="createdBefore", convert=parse_time)
    ignored: bool = option("Only failed jobs that were ignored.", "--ignored", default=False)


async def resolve_subscription(client: Client, conditions: dict[str, Any]) -> dict[str, Any]:
    """Replace a subscription's code by its id."""
    if "subscriptionId" in conditions:
        found = await subscription_id(client, conditions["subscriptionId"])
        conditions["subscriptionId"] = found
    return conditions
