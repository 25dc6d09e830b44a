"""`muster audit`: who changed keys and secrets."""

from typing import Annotated

import typer

from cli.shell.context import CommandContext, command
from cli.shell.output import columns, moment
from cli.shell.resource import print_page

AUDIT = columns(("time", "at", moment), ("by", "actor"), "action", "object")


@command
async def audit(
    shell: CommandContext,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, the newest first.")] = 50,
) -> None:
    """List who changed keys and secrets of the tenant, newest first."""
    async with shell.connect() as client:
        page = await client.get("/api/audit-log", {"limit": limit})
    print_page(page, AUDIT, "No changes.", shell)
