"""`muster audit`: who changed keys and secrets."""

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, single_command
from cli.shell.options import option
from cli.shell.output import columns
from cli.shell.resource import print_page

AUDIT = columns(("time", "at", fmt.moment), ("by", "actor"), "action", "object")


@single_command("muster audit --limit 20")
async def audit(
    shell: CommandContext,
    limit: int = option("How many, the newest first.", default=50, min=1, max=500),
) -> None:
    """List who changed keys and secrets of the tenant, newest first."""
    page = await shell.call("get", "/api/audit-log", params={"limit": limit})
    print_page(page, AUDIT, "No changes.", shell)
