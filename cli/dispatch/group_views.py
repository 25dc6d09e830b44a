"""Message groups as Rich shows them."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cli.dispatch.job_views import job_status
from cli.shell.durations import format_duration
from cli.shell.tables import Document, format_count, plain_table
from cli.waits.views import local_time, pairs_table

STATE_STYLES = {
    "parked": "yellow",
    "blocked": "bold red",
    "delivering": "green",
    "waiting": "cyan",
    "ready": "cyan",
    "failed": "red",
    "empty": "dim",
}
MAX_COUNTED = 1_000


def groups_view(items: Sequence[Document]) -> RenderableType:
    """One line for each group."""
    if not items:
        return Text("No groups.", style="dim")
    titles = ("group", "pool", "state", "waiting", "head", "for", "error")
    table = plain_table(*titles, right=(3,))
    for item in items:
        head = item.get("head") or {}
        table.add_row(
            Text(str(item.get("name"))),
            Text(str(item.get("dispatchPoolCode"))),
            _state(item),
            _waiting(item),
            Text(str(head.get("id", ""))),
            format_duration(head["ageSeconds"]) if head else "",
            Text(str(head.get("lastError") or ""), style="red"),
        )
    return table


def group_view(group: Document) -> RenderableType:
    """One group with its jobs in their order."""
    head, parked = group.get("head") or {}, group.get("parked") or {}
    by = f"by {parked.get('by')}, {local_time(parked.get('at'))}" if parked else ""
    reason = f": {parked['reason']}" if parked.get("reason") else ""
    lines = pairs_table(
        [
            ("group", Text(str(group.get("name")))),
            ("pool", Text(str(group.get("dispatchPoolCode")))),
            ("state", _state(group)),
            ("held back", Text(by + reason)),
            ("waiting", _waiting(group)),
            ("head", Text(_head(head))),
            ("error", Text(str(head.get("lastError") or ""), style="red")),
            ("again at", local_time(head.get("scheduledFor"))),
        ]
    )
    jobs = group.get("jobs") or ()
    if not jobs:
        return lines
    table = plain_table("id", "sequence", "status", "mode", "attempts", "made", right=(1,))
    for job in jobs:
        table.add_row(
            Text(str(job.get("id"))),
            str(job.get("sequence")),
            job_status(job),
            str(job.get("mode")),
            f"{job.get('attemptCount')} of {job.get('maxRetries')}",
            local_time(job.get("createdAt")),
        )
    return Group(lines, Text(""), table)


def group_summary(group: Document) -> Text:
    """How a group stands, in a few words."""
    text = _state(group)
    return text.append(f", {_waiting(group)} to deliver", style="default")


def _state(group: Document) -> Text:
    state = str(group.get("state"))
    return Text(state, style=STATE_STYLES.get(state, ""))


def _waiting(group: Document) -> str:
    waiting = group.get("waiting") or 0
    return f"{format_count(waiting)} or more" if waiting >= MAX_COUNTED else format_count(waiting)


def _head(head: Document) -> str:
    if not head:
        return ""
    return f"{head['id']}, {head['status']}, made {format_duration(head['ageSeconds'])} ago"
