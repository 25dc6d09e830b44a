"""`muster groups`: message groups, what blocks them, and how they continue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from cli.dispatch.job_filters import attempts, job_status
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, out, print_json, subcommand
from cli.shell.options import argument, option
from cli.shell.output import columns, pairs, sections, table
from cli.shell.resource import ApiResource, CursorOption, print_cursor
from core.dispatch.groups import GroupState

PATH = "/api/dispatch-groups"
MAX_COUNTED = 1_000
STATE = fmt.styled(
    {
        "parked": "yellow",
        "blocked": "bold red",
        "delivering": "green",
        "waiting": "cyan",
        "ready": "cyan",
        "failed": "red",
        "empty": "dim",
    }
)
GroupLimitOption = Annotated[int, typer.Option(min=1, max=200, help="Jobs on one page.")]
GroupPoolOption = Annotated[
    str | None, typer.Option(help="The group's pool, if several pools have a group of this name.")
]


@fmt.RightAligned
def _waiting(group: Document) -> str:
    waiting = group.get("waiting") or 0
    return f"{waiting:,} or more" if waiting >= MAX_COUNTED else f"{waiting:,}"


def _head(show: Callable[[Document], str | Text]) -> fmt.Format:
    """Show something of the job at a group's head; nothing if no job is there."""
    return lambda head: show(head) if head else ""


def _job(head: Document) -> str:
    return f"{head['id']}, {head['status']}, created {fmt.format_duration(head['ageSeconds'])} ago"


ERROR = ("error", "head", _head(lambda head: fmt.error(head.get("lastError"))))


def _parked(parked: Document | None) -> str:
    if not parked:
        return ""
    reason = f": {parked['reason']}" if parked.get("reason") else ""
    return f"by {parked.get('by')}, {fmt.moment(parked.get('at'))}{reason}"


GROUP = (("group", "name"), ("pool", "dispatchPoolCode"), ("state", "state", STATE))
groups = ApiResource(
    "group",
    "groups",
    PATH,
    argument=argument(
        "The group; SUBSCRIPTION:GROUP for events, as in billing:customer-17.", metavar="GROUP"
    ),
    # A group exists as long as it has jobs to deliver or failed jobs.
    not_found="Group {name} has no job to deliver and none that failed: see `muster groups list`.",
    example="billing:customer-17",
    listing=columns(
        *GROUP,
        ("waiting", _waiting),
        ("head", "head", _head(lambda head: str(head["id"]))),
        ("age", "head", _head(lambda head: fmt.length(head.get("ageSeconds")))),
        ERROR,
    ),
    details=columns(
        *GROUP,
        ("parked", "parked", _parked),
        ("waiting", _waiting),
        ("head", "head", _head(_job)),
        ERROR,
        ("next attempt", "head", _head(lambda head: fmt.moment(head.get("scheduledFor")))),
    ),
)
JOBS = columns(
    "id",
    ("sequence", "sequence", fmt.number),
    ("status", job_status),
    "mode",
    ("attempts", attempts),
    ("created", "createdAt", fmt.moment),
)
app = groups.app


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilters:
    state: GroupState | None = option("Only groups in this state.")
    pool: str | None = option("Only groups of this pool.")


groups.add_list(
    "List the groups with jobs to deliver or with failed jobs, and the job at the head of each.",
    "muster groups list --state blocked",
    filters=GroupFilters,
    limit=50,
    max_limit=200,
)


@subcommand(app, "show", "muster groups show billing:customer-17")
async def show(
    shell: CommandContext,
    name: str = groups.argument,
    pool: GroupPoolOption = None,
    limit: GroupLimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """Show one group: the job at its head, and the jobs that wait behind it in order."""
    params = {"pool": pool, "limit": limit, "cursor": cursor}
    group = await groups.call(shell, "get", name, params=params)
    if shell.as_json:
        print_json(group)
        return
    jobs = group.get("jobs")
    head = pairs(groups.details, group)
    out.print(sections(head, table(JOBS, jobs)) if jobs else head)
    print_cursor(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    pool: str | None = option("The group's pool, if several pools have a group of this name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkOptions:
    reason: str | None = option("Why; shown with the group.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipOptions(GroupOptions):
    job: str | None = option("Only if this job is at the head.", api="jobId")


def _sentence(done: str) -> Callable[[Document], str]:
    return lambda group: (
        f"Group {group['name']} {done}: {group.get('state')}, {_waiting(group)} to deliver"
    )


groups.add_verb(
    "park",
    "Park a group: none of its jobs is delivered until it is resumed.",
    _sentence("is parked"),
    "muster groups park billing:customer-17 --reason 'disputed'",
    body=ParkOptions,
    query=GroupOptions,
)
groups.add_verb(
    "resume",
    "Resume a group; a failed job that blocks it is delivered again first.",
    _sentence("continues"),
    query=GroupOptions,
)
groups.add_verb(
    "skip",
    "Skip the job at a group's head: a failed job is ignored, a waiting one is cancelled.",
    _sentence("continues after its head"),
    query=SkipOptions,
)
