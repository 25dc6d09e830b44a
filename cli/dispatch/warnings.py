"""`muster warnings`: what needs attention."""

from enum import StrEnum

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, subcommand
from cli.shell.errors import InputError
from cli.shell.lazy import command_group
from cli.shell.options import argument, option
from cli.shell.output import columns
from cli.shell.resource import CursorOption, LimitOption, print_page

PATH = "/monitoring/warnings"
_PAGE = 500
WARNINGS = columns(
    ("id", "id", fmt.RightAligned(fmt.text)),
    (
        "severity",
        "severity",
        fmt.styled({"INFO": "cyan", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}),
    ),
    "category",
    ("about", "source"),
    ("count", "count", fmt.number),
    ("last", "timestamp", fmt.moment),
    "message",
    ("acknowledged by", "acknowledgedBy"),
)


class WarningSeverity(StrEnum):
    """The API's severities; the storage's enumeration would need a database driver."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


app = command_group("muster warnings list")


@subcommand(app, "list", "muster warnings list --severity error")
async def list_(
    shell: CommandContext,
    severity: WarningSeverity | None = option(
        "Only warnings of this severity.", case_sensitive=False
    ),
    everything: bool = option("Also warnings that were acknowledged.", "--all", default=False),
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List the warnings that nobody has acknowledged, newest first.

    With --severity, list all warnings of that severity, acknowledged or not.
    """
    path = PATH if everything else f"{PATH}/unacknowledged"
    if severity is not None:
        path = f"{PATH}/severity/{severity.value}"
    page = await shell.call("get", path, params={"limit": limit, "cursor": cursor})
    print_page(page, WARNINGS, "No warnings.", shell)


@subcommand(app, "ack", "muster warnings ack 17", "muster warnings ack --all")
async def acknowledge(
    shell: CommandContext,
    ids: list[int] | None = argument("Ids of warnings.", default=None, metavar="ID", min=1),
    everything: bool = option("All open warnings.", "--all", default=False),
) -> None:
    """Acknowledge warnings; a problem that occurs again raises a new one."""
    if bool(ids) == everything:
        raise InputError("Name warnings by their ids, or give --all.")
    async with shell.connect() as client:
        wanted = list(dict.fromkeys(map(str, ids or ())))
        if everything:
            page = await client.get(f"{PATH}/unacknowledged", {"limit": _PAGE})
            wanted = [str(one["id"]) for one in page["items"]]
        done = [await client.post(f"{PATH}/{one}/acknowledge", {}) for one in wanted]
    shell.print(
        {"items": done}, f"{len(done)} warning{'' if len(done) == 1 else 's'} acknowledged."
    )
