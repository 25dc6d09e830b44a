"""`muster warnings`: what somebody should look at."""

from enum import StrEnum
from typing import Annotated

import typer

from cli.dispatch.monitoring_views import warnings_view
from cli.dispatch.parsing import CursorOption, LimitOption
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.lazy import SETTINGS, example
from cli.shell.tables import print_page

PATH = "/monitoring/warnings"
_PAGE = 500


class WarningSeverity(StrEnum):
    """How much a warning matters, as the API has it; whose own needs a database driver."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="See what somebody should look at, and say that it was seen.",
)


@app.command("list", epilog=example("muster warnings list --severity error"))
@command
async def list_(
    shell: CommandContext,
    severity: Annotated[
        WarningSeverity | None, typer.Option(help="Only those.", case_sensitive=False)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that somebody has seen.")
    ] = False,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List warnings about deliveries, newest first: those that nobody has seen yet.

    With --severity all of that severity, seen or not.
    """
    path = PATH if everything else f"{PATH}/unacknowledged"
    if severity is not None:
        path = f"{PATH}/severity/{severity.value}"
    async with shell.connect() as client:
        page = await client.get(path, {"limit": limit, "cursor": cursor})
    print_page(page, warnings_view, shell)


@app.command("ack", epilog=example("muster warnings ack 17", "muster warnings ack --all"))
@command
async def acknowledge(
    shell: CommandContext,
    ids: Annotated[
        list[int] | None, typer.Argument(help="Ids of warnings.", metavar="ID", min=1)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are open.")] = False,
) -> None:
    """Say that a warning was seen; if it happens again, there is a new one."""
    if bool(ids) == everything:
        raise InputError("Name warnings: ids, or --all.")
    async with shell.connect() as client:
        wanted = list(dict.fromkeys(map(str, ids or ())))
        if everything:
            page = await client.get(f"{PATH}/unacknowledged", {"limit": _PAGE})
            wanted = [str(one["id"]) for one in page["items"]]
        seen = [await client.post(f"{PATH}/{one}/acknowledge", {}) for one in wanted]
    if shell.as_json:
        print_json({"items": seen})
    else:
        out.print("1 warning is seen." if len(seen) == 1 else f"{len(seen)} warnings are seen.")
