"""`muster pools`: rates and places that deliveries share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import (
    CursorOption,
    LimitOption,
    explain_not_found,
    join_path,
    require_code,
)
from cli.dispatch.pool_stats import stats
from cli.dispatch.pool_views import pool_view, pools_view
from cli.shell.client import Client
from cli.shell.context import CommandContext, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.lazy import SETTINGS, example
from cli.shell.problems import ProblemResponseError
from cli.shell.tables import print_page
from core.dispatch.pool import MAX_CONCURRENCY, MAX_RATE, PoolStatus

PATH = "/api/dispatch-pools"
_ID = re.compile(r"dpl_(?:default|[0-9A-Z]{13})")
PoolArgument = Annotated[str, typer.Argument(help="The pool's code or id.", metavar="POOL")]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Set how fast and how many at once; suspend, activate, and watch.",
)


@app.command("list", epilog=example("muster pools list"))
@command
async def list_(
    shell: CommandContext,
    status: Annotated[
        PoolStatus | None, typer.Option(help="Only those that stand so.", case_sensitive=False)
    ] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> None:
    """List your pools, and those that everybody shares."""
    params = {"status": status.value if status else None, "limit": limit, "cursor": cursor}
    async with shell.connect() as client:
        page = await client.get(PATH, params)
    print_page(page, pools_view, shell, "pools")


@app.command("show", epilog=example("muster pools show slow-partner"))
@command
async def show(code: PoolArgument, shell: CommandContext) -> None:
    """Show one pool: how fast it delivers, and how many at once."""
    async with shell.connect() as client:
        with explain_not_found(_missing(code)):
            found = await client.get(_path(code))
    print_json(found) if shell.as_json else out.print(pool_view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchPoolOptions:
    """What a pool is to be; what is not given stays, or is Muster's usual."""

    rate: Annotated[
        str | None,
        typer.Option(
            help="Deliveries a minute, as in 600, or none for as many as there are.",
            metavar="N|none",
        ),
    ] = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=MAX_CONCURRENCY, help="At most so many at once.")
    ] = None
    name: Annotated[str | None, typer.Option(help="How people call it.")] = None
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None

    def body(self) -> dict[str, Any]:
        """What was given, as the API names it."""
        body: dict[str, Any] = {
            name: value
            for name, value in (
                ("concurrency", self.concurrency),
                ("name", self.name),
                ("description", self.description),
            )
            if value is not None
        }
        return body | ({} if self.rate is None else {"rateLimit": parse_rate(self.rate)})


@app.command(
    "put",
    epilog=example(
        "muster pools put slow-partner --rate 600 --concurrency 5",
        "muster pools put slow-partner --rate none",
    ),
)
@command
async def put(code: PoolArgument, options: DispatchPoolOptions, shell: CommandContext) -> None:
    """Make a pool, or change one that is there; a change takes effect at once."""
    body = options.body()
    async with shell.connect() as client:
        if await _is_there(client, code):
            if not body:
                raise InputError("Say what is to change: --rate, --concurrency, --name, …")
            pool = await client.patch(_path(code), body)
        else:
            name = code.replace("-", " ").capitalize()
            pool = await client.post(PATH, {"code": code, "name": name, **body})
    if shell.as_json:
        print_json(pool)
    else:
        out.print(f"Pool {code}: {describe_limits(pool)}.", markup=False)


@app.command("suspend", epilog=example("muster pools suspend slow-partner"))
@command
async def suspend(code: PoolArgument, shell: CommandContext) -> None:
    """Let a pool wait; what it has begun it ends, and nothing is lost."""
    await _change(code, "suspend", "waits", shell)


@app.command("activate", epilog=example("muster pools activate slow-partner"))
@command
async def activate(code: PoolArgument, shell: CommandContext) -> None:
    """Let a pool deliver again, also one that was archived."""
    await _change(code, "activate", "delivers", shell)


@app.command("archive", epilog=example("muster pools archive slow-partner"))
@command
async def archive(code: PoolArgument, shell: CommandContext) -> None:
    """Put a pool out of use that nobody needs any more."""
    async with shell.connect() as client:
        with explain_not_found(_missing(code)):
            await client.delete(_path(code))
    if shell.as_json:
        print_json({"pool": code, "archived": True})
    else:
        out.print(f"Pool {code} is archived.", markup=False)


app.command("stats", epilog=example("muster pools stats --watch"))(stats)


async def _change(code: str, verb: str, what: str, shell: CommandContext) -> None:
    async with shell.connect() as client:
        with explain_not_found(_missing(code)):
            pool = await client.post(_path(code, verb), {})
    if shell.as_json:
        print_json(pool)
    else:
        out.print(f"Pool {pool['code']} {what}.", markup=False)


async def _is_there(client: Client, code: str) -> bool:
    """Whether a pool of this code is there, to be changed."""
    try:
        await client.get(_path(code))
    except ProblemResponseError as problem:
        if problem.status != 404:
            raise
        return False
    return True


def _path(code: str, *rest: str) -> str:
    return join_path(PATH, code if _ID.fullmatch(code) else require_code(code, "pool"), *rest)


def _missing(code: str) -> str:
    return f"There is no pool {code}: see `muster pools list`."


def parse_rate(text: str) -> int | None:
    """Deliveries a minute as they were typed; None for as many as there are."""
    if text.strip().lower() == "none":
        return None
    if not text.strip().isdecimal() or not 1 <= int(text) <= MAX_RATE:
        raise InputError(f"--rate is a number from 1 to {MAX_RATE:,}, or none; not '{text}'.")
    return int(text)


def describe_limits(pool: Mapping[str, Any]) -> str:
    """How fast and how many at once."""
    rate = pool.get("rateLimit")
    fast = "as many as there are" if rate is None else f"{rate:,} a minute"
    return f"{fast}, {pool.get('concurrency'):,} at once"
