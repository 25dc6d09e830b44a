"""`muster groups`: message groups, what blocks them, and how they go on."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.dispatch.group_views import group_summary, group_view, groups_view
from cli.dispatch.parsing import CursorOption, explain_not_found, join_path
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.lazy import SETTINGS, example
from cli.shell.tables import print_page
from core.dispatch.groups import GroupState

PATH = "/api/dispatch-groups"
GroupArgument = Annotated[
    str,
    typer.Argument(
        help="The group: SUBSCRIPTION:GROUP for those of events, as in billing:customer-17.",
        metavar="GROUP",
    ),
]
# A group is there as long as something of it is to be delivered, or has failed.
_EMPTY = "Nothing waits in group {name}, and nothing failed: see `muster groups list`."
GroupLimitOption = Annotated[int, typer.Option(min=1, max=200, help="How many on one page.")]
GroupPoolOption = Annotated[
    str | None, typer.Option(help="Its pool, where several have a group of this name.")
]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Look at message groups: what blocks them; hold back, set free, skip.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListOptions:
    """Which groups a listing shows."""

    state: Annotated[GroupState | None, typer.Option(help="Only those that stand so.")] = None
    pool: Annotated[str | None, typer.Option(help="Only those of this pool.")] = None
    limit: GroupLimitOption = 50
    cursor: CursorOption = None

    def params(self) -> dict[str, str | int | float | None]:
        """The listing's query."""
        return {
            "state": self.state.value if self.state else None,
            "pool": self.pool,
            "limit": self.limit,
            "cursor": self.cursor,
        }


@app.command("list", epilog=example("muster groups list --state blocked"))
@command
async def list_(options: GroupListOptions, shell: CommandContext) -> None:
    """List groups with jobs to deliver, or with failed ones: what heads each, and since when."""
    async with shell.connect() as client:
        page = await client.get(PATH, options.params())
    print_page(page, groups_view, shell)


@app.command("show", epilog=example("muster groups show billing:customer-17"))
@command
async def show(
    name: GroupArgument,
    shell: CommandContext,
    pool: GroupPoolOption = None,
    limit: GroupLimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """Show one group: its head, and what waits behind that in order."""
    params = {"pool": pool, "limit": limit, "cursor": cursor}
    async with shell.connect() as client:
        with explain_not_found(_EMPTY.format(name=name)):
            found = await client.get(join_path(PATH, name), params)
    if shell.as_json:
        print_json(found)
        return
    out.print(group_view(found))
    if found.get("nextCursor"):
        out.print(f"[dim]More: --cursor {found['nextCursor']}[/]", soft_wrap=True)


@app.command("park", epilog=example("muster groups park billing:customer-17 --reason 'disputed'"))
@command
async def park(
    name: GroupArgument,
    shell: CommandContext,
    reason: Annotated[str | None, typer.Option(help="Why, for whoever looks at it.")] = None,
    pool: GroupPoolOption = None,
) -> None:
    """Hold a group back: nothing of it is delivered until it is resumed."""
    async with shell.connect() as client:
        body = {"reason": reason} if reason is not None else {}
        _print_group(await _change(client, name, "park", pool, body), "is held back", shell)


@app.command("resume", epilog=example("muster groups resume billing:customer-17"))
@command
async def resume(name: GroupArgument, shell: CommandContext, pool: GroupPoolOption = None) -> None:
    """Set a group free; if a failed job blocks it, that is delivered again first."""
    async with shell.connect() as client:
        _print_group(await _change(client, name, "resume", pool), "goes on", shell)


@app.command("skip", epilog=example("muster groups skip billing:customer-17"))
@command
async def skip(
    name: GroupArgument,
    shell: CommandContext,
    pool: GroupPoolOption = None,
    job: Annotated[str | None, typer.Option(help="Only if this job is its head.")] = None,
) -> None:
    """Let a group go on without its head: put aside what failed, or cancel what waits."""
    async with shell.connect() as client:
        group = await _change(client, name, "skip", pool, job=job)
    _print_group(group, "goes on without its head", shell)


async def _change(
    client: Client,
    name: str,
    verb: str,
    pool: str | None,
    body: dict[str, Any] | None = None,
    job: str | None = None,
) -> Any:
    params = {"pool": pool, "jobId": job}
    with explain_not_found(_EMPTY.format(name=name)):
        return await client.post(join_path(PATH, name, verb), body or {}, params=params)


def _print_group(group: Any, what: str, shell: CommandContext) -> None:
    if shell.as_json:
        print_json(group)
    else:
        out.print(f"Group {group['name']} {what}: ", group_summary(group), sep="", soft_wrap=True)
