"""Which jobs are meant, as it is typed."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import join_path, parse_time
from cli.dispatch.subscriptions import subscription_id
from cli.shell.client import Client
from cli.shell.errors import InputError
from core.dispatch.job import JobStatus, Kind
from core.shared.tsid import PATTERN

PATH = "/api/dispatch-jobs"
JobIdArgument = Annotated[str, typer.Argument(help="The job's id.", metavar="ID")]
SubscriptionFilterOption = Annotated[
    str | None, typer.Option(help="Only those of this subscription, by its code or id.")
]
PoolFilterOption = Annotated[str | None, typer.Option(help="Only those of this pool.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilterOptions:
    """What jobs can be told apart by."""

    status: Annotated[
        list[JobStatus] | None,
        typer.Option(help="Only those that stand so; once for each.", case_sensitive=False),
    ] = None
    kind: Annotated[
        Kind | None,
        typer.Option(help="Those of events, or those that were posted.", case_sensitive=False),
    ] = None
    code: Annotated[str | None, typer.Option(help="Only those of this event type.")] = None
    source: Annotated[str | None, typer.Option(help="Only those from there.")] = None
    subscription: SubscriptionFilterOption = None
    pool: PoolFilterOption = None
    group: Annotated[str | None, typer.Option(help="Only those of this message group.")] = None
    event: Annotated[str | None, typer.Option(help="Only those of this event's id.")] = None
    correlation: Annotated[str | None, typer.Option(help="Only this correlation id.")] = None
    client: Annotated[str | None, typer.Option(help="Only those about this client.")] = None
    since: Annotated[
        str | None, typer.Option(help="Only those made since: 10m ago, or a date and time.")
    ] = None
    until: Annotated[str | None, typer.Option(help="Only those made before.")] = None
    ignored: Annotated[
        bool, typer.Option("--ignored", help="Only failed ones that were put aside.")
    ] = False

    async def conditions(self, client: Client) -> dict[str, Any]:
        """As the API names them; what was not given is not there."""
        now = datetime.now(UTC)
        given = {
            "status": [status.value for status in self.status or ()] or None,
            "kind": self.kind.value if self.kind else None,
            "code": self.code,
            "source": self.source,
            "subscriptionId": await subscription_id(client, self.subscription),
            "pool": self.pool,
            "messageGroup": self.group,
            "eventId": self.event,
            "correlationId": self.correlation,
            "clientId": self.client,
            "createdAfter": parse_time(self.since, now) if self.since else None,
            "createdBefore": parse_time(self.until, now) if self.until else None,
            "ignored": True if self.ignored else None,
        }
        return {name: value for name, value in given.items() if value is not None}


def job_path(job_id: str, *rest: str) -> str:
    """The path of one job.

    Raises:
        InputError: No job can be called so.
    """
    return join_path(PATH, require_job_id(job_id), *rest)


def require_job_id(job_id: str) -> str:
    """An id as jobs have it."""
    if not re.fullmatch(PATTERN, job_id):
        raise InputError(f"'{job_id}' is no job's id: see `muster jobs list`.")
    return job_id


def query_params(conditions: dict[str, Any]) -> dict[str, Any]:
    """The same in a query, where a truth value is a word."""
    return {name: "true" if value is True else value for name, value in conditions.items()}
