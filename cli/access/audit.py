"""`muster audit`: who changed keys and secrets."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cli.shell.context import CommandContext, command, out, print_json
from cli.waits.views import local_time


@command
async def audit(
    shell: CommandContext,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, the newest first.")] = 50,
) -> None:
    """List who changed keys and secrets of the tenant, newest first."""
    async with shell.connect() as client:
        found = await client.get("/api/audit-log", {"limit": limit})
    if shell.as_json:
        print_json(found)
    else:
        out.print(audit_view(found["items"]))


def audit_view(entries: Sequence[dict[str, Any]]) -> Table:
    """One line for each change."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("at", "by", "action", "what"):
        table.add_column(title, overflow="fold")
    for one in entries:
        table.add_row(
            local_time(one.get("at")),
            Text(str(one.get("actor"))),
            Text(str(one.get("action"))),
            Text(str(one.get("object"))),
        )
    return table
