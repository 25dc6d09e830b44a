"""`muster pools`: rates and places that deliveries share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.dispatch.parsing import Cursor, Limit, checked_code, missing_told, path_of
from cli.dispatch.pool_stats import stats
from cli.dispatch.pool_views import pool_view, pools_view
from cli.shell.client import Client
from cli.shell.context import Shell, command, out, print_json
from cli.shell.errors import InputError
from cli.shell.lazy import SETTINGS, example
from cli.shell.problems import ProblemError
from cli.shell.tables import print_page
from core.dispatch.pool import MOST_CONCURRENCY, MOST_RATE, PoolStatus

PATH = "/api/dispatch-pools"
_ID = re.compile(r"dpl_(?:default|[0-9A-Z]{13})")
Code = Annotated[str, typer.Argument(help="The pool's code or id.", metavar="POOL")]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Set how fast and how many at once; suspend, activate, and watch.",
)


@app.command("list", epilog=example("muster pools list"))
@command
async def list_(
    shell: Shell,
    status: Annotated[
        PoolStatus | None, typer.Option(help="Only those that stand so.", case_sensitive=False)
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """List your pools, and those that everybody shares."""
    params = {"status": status.value if status else None, "limit": limit, "cursor": cursor}
    async with shell.connect() as client:
        page = await client.get(PATH, params)
    print_page(page, pools_view, shell, "pools")


@app.command("show", epilog=example("muster pools show slow-partner"))
@command
async def show(code: Code, shell: Shell) -> None:
    """Show one pool: how fast it delivers, and how many at once."""
    async with shell.connect() as client:
        with missing_told(_missing(code)):
            found = await client.get(_path(code))
    print_json(found) if shell.as_json else out.print(pool_view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a pool is to be; what is not given stays, or is Muster's usual."""

    rate: Annotated[
        str | None,
        typer.Option(
            help="Deliveries a minute, as in 600, or none for as many as there are.",
            metavar="N|none",
        ),
    ] = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=MOST_CONCURRENCY, help="At most so many at once.")
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
        return body | ({} if self.rate is None else {"rateLimit": rate_of(self.rate)})


@app.command(
    "put",
    epilog=example(
        "muster pools put slow-partner --rate 600 --concurrency 5",
        "muster pools put slow-partner --rate none",
    ),
)
@command
async def put(code: Code, terms: Terms, shell: Shell) -> None:
    """Make a pool, or change one that is there; a change takes effect at once."""
    body = terms.body()
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
        out.print(f"Pool {code}: {terms_in_words(pool)}.", markup=False)


@app.command("suspend", epilog=example("muster pools suspend slow-partner"))
@command
async def suspend(code: Code, shell: Shell) -> None:
    """Let a pool wait; what it has begun it ends, and nothing is lost."""
    await _change(code, "suspend", "waits", shell)


@app.command("activate", epilog=example("muster pools activate slow-partner"))
@command
async def activate(code: Code, shell: Shell) -> None:
    """Let a pool deliver again, also one that was archived."""
    await _change(code, "activate", "delivers", shell)


@app.command("archive", epilog=example("muster pools archive slow-partner"))
@command
async def archive(code: Code, shell: Shell) -> None:
    """Put a pool out of use that nobody needs any more."""
    async with shell.connect() as client:
        with missing_told(_missing(code)):
            await client.delete(_path(code))
    if shell.as_json:
        print_json({"pool": code, "archived": True})
    else:
        out.print(f"Pool {code} is archived.", markup=False)


app.command("stats", epilog=example("muster pools stats --watch"))(stats)


async def _change(code: str, verb: str, what: str, shell: Shell) -> None:
    async with shell.connect() as client:
        with missing_told(_missing(code)):
            pool = await client.post(_path(code, verb), {})
    if shell.as_json:
        print_json(pool)
    else:
        out.print(f"Pool {pool['code']} {what}.", markup=False)


async def _is_there(client: Client, code: str) -> bool:
    """Whether a pool of this code is there, to be changed."""
    try:
        await client.get(_path(code))
    except ProblemError as problem:
        if problem.status != 404:
            raise
        return False
    return True


def _path(code: str, *rest: str) -> str:
    return path_of(PATH, code if _ID.fullmatch(code) else checked_code(code, "pool"), *rest)


def _missing(code: str) -> str:
    return f"There is no pool {code}: see `muster pools list`."


def rate_of(text: str) -> int | None:
    """Deliveries a minute as they were typed; None for as many as there are."""
    if text.strip().lower() == "none":
        return None
    if not text.strip().isdecimal() or not 1 <= int(text) <= MOST_RATE:
        raise InputError(f"--rate is a number from 1 to {MOST_RATE:,}, or none; not '{text}'.")
    return int(text)


def terms_in_words(pool: Mapping[str, Any]) -> str:
    """How fast and how many at once."""
    rate = pool.get("rateLimit")
    fast = "as many as there are" if rate is None else f"{rate:,} a minute"
    return f"{fast}, {pool.get('concurrency'):,} at once"
