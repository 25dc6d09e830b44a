"""`muster groups`: message groups, what blocks them, and how they continue."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.dispatch.job_filters import attempts, job_status
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, out, print_json, subcommand
from cli.shell.durations import format_duration
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


def _head(group: Document) -> str:
    head = group.get("head")
    if not head:
        return ""
    return f"{head['id']}, {head['status']}, created {format_duration(head['ageSeconds'])} ago"


def _parked(group: Document) -> Text:
    parked = group.get("parked")
    if not parked:
        return Text("")
    reason = f": {parked['reason']}" if parked.get("reason") else ""
    return Text(f"by {parked.get('by')}, {fmt.moment(parked.get('at'))}{reason}")


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
        ("head", lambda group: str((group.get("head") or {}).get("id", ""))),
        ("age", lambda group: fmt.length((group.get("head") or {}).get("ageSeconds"))),
        ("error", lambda group: fmt.error((group.get("head") or {}).get("lastError"))),
    ),
    details=columns(
        *GROUP,
        ("parked", _parked),
        ("waiting", _waiting),
        ("head", _head),
        ("error", lambda group: fmt.error((group.get("head") or {}).get("lastError"))),
        ("next attempt", lambda group: fmt.moment((group.get("head") or {}).get("scheduledFor"))),
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


@subcommand(app, "park", "muster groups park billing:customer-17 --reason 'disputed'")
async def park(
    shell: CommandContext,
    name: str = groups.argument,
    reason: str | None = option("Why; shown with the group."),
    pool: GroupPoolOption = None,
) -> None:
    """Park a group: none of its jobs is delivered until it is resumed."""
    body = {"reason": reason} if reason is not None else {}
    await _change(shell, name, "park", "is parked", {"pool": pool}, body)


@subcommand(app, "resume", "muster groups resume billing:customer-17")
async def resume(
    shell: CommandContext, name: str = groups.argument, pool: GroupPoolOption = None
) -> None:
    """Resume a group; a failed job that blocks it is delivered again first."""
    await _change(shell, name, "resume", "continues", {"pool": pool})


@subcommand(app, "skip", "muster groups skip billing:customer-17")
async def skip(
    shell: CommandContext,
    name: str = groups.argument,
    pool: GroupPoolOption = None,
    job: str | None = option("Only if this job is at the head."),
) -> None:
    """Skip the job at a group's head: a failed job is ignored, a waiting one is cancelled."""
    await _change(shell, name, "skip", "continues after its head", {"pool": pool, "jobId": job})


async def _change(
    shell: CommandContext, name: str, verb: str, done: str, params: Any, body: Any = None
) -> None:
    group = await groups.call(shell, "post", name, verb, body=body or {}, params=params)
    sentence = f"Group {group['name']} {done}: {group.get('state')}, {_waiting(group)} to deliver"
    shell.print(group, sentence)
