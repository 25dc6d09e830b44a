"""`muster breakers`: targets that are left alone because they fail."""

from typing import Annotated

import typer

from cli.dispatch.monitoring_views import breakers_view
from cli.dispatch.parsing import explain_not_found, join_path
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.lazy import SETTINGS, example
from cli.shell.tables import print_page
from core.dispatch.breaker import BreakerState

PATH = "/monitoring/circuit-breakers"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="See which targets are left alone for failing, and try them again.",
)


@app.command("list", epilog=example("muster breakers list --state open"))
@command
async def list_(
    shell: CommandContext,
    state: Annotated[
        BreakerState | None, typer.Option(help="Only those.", case_sensitive=False)
    ] = None,
) -> None:
    """List the targets that were called within the last hour, and how they fare."""
    async with shell.connect() as client:
        page = await client.get(PATH)
    if state is not None:
        page["items"] = [one for one in page["items"] if one["state"] == state.value]
    print_page(page, breakers_view, shell)


@app.command(
    "reset",
    epilog=example(
        "muster breakers reset https://billing.example.com/hook", "muster breakers reset --all"
    ),
)
@command
async def reset(
    shell: CommandContext,
    target: Annotated[
        str | None, typer.Argument(help="The target's address.", metavar="URL")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All targets.")] = False,
) -> None:
    """Try a target again at once, whatever it did before."""
    if (target is not None) == everything:
        raise InputError("Name a target, or give --all.")
    path = f"{PATH}/reset-all" if target is None else join_path(PATH, target, "reset")
    async with shell.connect() as client:
        told = f"Nothing was delivered to {target} lately: see `muster breakers list`."
        with explain_not_found(told):
            done = await client.post(path, {})
    if shell.as_json:
        print_json(done)
    else:
        many = done["reset"]
        out.print("1 target is tried again." if many == 1 else f"{many} targets are tried again.")
