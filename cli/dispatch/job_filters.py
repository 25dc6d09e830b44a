"""How jobs are named and shown: ids, filters, and the columns of a listing."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.dispatch.subscriptions import subscription_id
from cli.shell.client import Client
from cli.shell.errors import InputError
from cli.shell.options import ApiField, request_fields
from cli.shell.output import Document, age, columns, error, short_line, styled
from cli.shell.parsing import join_path, parse_time
from core.dispatch.job import JobStatus, Kind
from core.shared.tsid import PATTERN

PATH = "/api/dispatch-jobs"
JobIdArgument = Annotated[str, typer.Argument(help="The job's id.", metavar="ID")]
SubscriptionFilterOption = Annotated[
    str | None,
    typer.Option(help="Only jobs of this subscription, by code or id."),
    ApiField("subscriptionId"),
]
PoolFilterOption = Annotated[str | None, typer.Option(help="Only jobs of this pool.")]
STATUS = styled(
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


JOBS = columns(
    "id",
    "code",
    ("group", "messageGroup"),
    ("status", job_status),
    ("attempts", attempts),
    ("target", "targetUrl", lambda url: Text(str(url).partition("://")[2])),
    ("age", "createdAt", age),
    ("error", "lastError", lambda value: error(short_line(value))),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilterOptions:
    """What jobs are selected by."""

    status: Annotated[
        list[JobStatus] | None,
        typer.Option(help="Only jobs of this status; repeatable.", case_sensitive=False),
    ] = None
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="EVENT jobs come from events, TASK jobs are posted.", case_sensitive=False
        ),
    ] = None
    code: Annotated[str | None, typer.Option(help="Only jobs of this event type.")] = None
    source: Annotated[str | None, typer.Option(help="Only jobs from this source.")] = None
    subscription: SubscriptionFilterOption = None
    pool: PoolFilterOption = None
    group: Annotated[
        str | None,
        typer.Option(help="Only jobs of this message group."),
        ApiField("messageGroup"),
    ] = None
    event: Annotated[
        str | None, typer.Option(help="Only jobs of the event with this id."), ApiField("eventId")
    ] = None
    correlation: Annotated[
        str | None,
        typer.Option(help="Only jobs with this correlation id."),
        ApiField("correlationId"),
    ] = None
    client: Annotated[
        str | None, typer.Option(help="Only jobs about this client."), ApiField("clientId")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(help="Only jobs created since: 10m ago, or a date and time."),
        ApiField("createdAfter", parse_time),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(help="Only jobs created before."),
        ApiField("createdBefore", parse_time),
    ] = None
    ignored: Annotated[
        bool, typer.Option("--ignored", help="Only failed jobs that were ignored.")
    ] = False

    async def conditions(self, client: Client) -> dict[str, Any]:
        """Return the filters that were given, as the API names them."""
        return await resolve_subscription(client, request_fields(self))


async def resolve_subscription(client: Client, conditions: dict[str, Any]) -> dict[str, Any]:
    """Replace a subscription's code by its id."""
    if "subscriptionId" in conditions:
        found = await subscription_id(client, conditions["subscriptionId"])
        conditions["subscriptionId"] = found
    return conditions


def job_path(job_id: str, *rest: str) -> str:
    """Return the path of one job.

    Raises:
        InputError: No job can have this id.
    """
    return join_path(PATH, require_job_id(job_id), *rest)


def require_job_id(job_id: str) -> str:
    if not re.fullmatch(PATTERN, job_id):
        raise InputError(f"'{job_id}' is not a job's id: see `muster jobs list`.")
    return job_id
