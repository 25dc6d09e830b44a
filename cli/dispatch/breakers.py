"""`muster breakers`: targets that are not called because they fail."""

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, subcommand
from cli.shell.errors import InputError
from cli.shell.lazy import command_group
from cli.shell.options import argument, option
from cli.shell.output import columns
from cli.shell.parsing import join_path
from cli.shell.resource import print_page
from core.dispatch.breaker import BreakerState

PATH = "/monitoring/circuit-breakers"
BREAKERS = columns(
    ("target", "name"),
    ("pool", "poolCode"),
    ("state", "state", fmt.styled({"CLOSED": "green", "HALF_OPEN": "yellow", "OPEN": "bold red"})),
    ("succeeded", "successfulCalls", fmt.number),
    ("failed", "failedCalls", fmt.number),
    ("held back", "rejectedCalls", fmt.number),
    ("failure rate", "failureRate", fmt.percent),
    ("next try in", "openForSeconds", fmt.RightAligned(fmt.length)),
)
app = command_group("muster breakers list")


@subcommand(app, "list", "muster breakers list --state open")
async def list_(
    shell: CommandContext,
    state: BreakerState | None = option("Only breakers of this state.", case_sensitive=False),
) -> None:
    """List the targets of the last hour, with their circuit breakers and failure rates."""
    page = await shell.call("get", PATH)
    if state is not None:
        page["items"] = [one for one in page["items"] if one["state"] == state.value]
    print_page(page, BREAKERS, "No targets.", shell)


@subcommand(
    app,
    "reset",
    "muster breakers reset https://billing.example.com/hook",
    "muster breakers reset --all",
)
async def reset(
    shell: CommandContext,
    target: str | None = argument("The target's address.", default=None, metavar="URL"),
    everything: bool = option("All targets.", "--all", default=False),
) -> None:
    """Close a target's breaker: deliveries to the target are tried again at once."""
    if (target is not None) == everything:
        raise InputError("Name a target, or give --all.")
    path = f"{PATH}/reset-all" if target is None else join_path(PATH, target, "reset")
    missing = f"Nothing was delivered to {target} in the last hour: see `muster breakers list`."
    done = await shell.call("post", path, body={}, missing=missing)
    count = done["reset"]
    shell.print(done, f"{count} breaker{'' if count == 1 else 's'} reset.")
