"""`muster pools`: the rate and the concurrency that deliveries share."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.dispatch.pool_stats import STATUS, rate, stats
from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import CommandContext, subcommand
from cli.shell.errors import InputError
from cli.shell.options import option, request_fields
from cli.shell.output import columns
from cli.shell.parsing import name_from_code
from cli.shell.problems import ProblemResponseError
from cli.shell.resource import ApiResource
from core.dispatch.pool import MAX_CONCURRENCY, MAX_RATE, PoolStatus
from core.dispatch.subscription import is_code

PATH = "/api/dispatch-pools"
PoolArgument = Annotated[str, typer.Argument(help="The pool's code or id.", metavar="POOL")]


def _parse_rate(text: str) -> int | None:
    if text.strip().lower() == "none":
        return None
    if not text.strip().isdecimal() or not 1 <= int(text) <= MAX_RATE:
        raise InputError(f"--rate is a number from 1 to {MAX_RATE:,}, or none; not '{text}'.")
    return int(text)


def _owner(pool: Document) -> str:
    return "shared" if pool.get("anchorLevel") else "yours"


LIMITS = (
    ("per minute", "rateLimit", rate),
    ("at once", "concurrency", fmt.number),
    ("owner", _owner),
)
pools = ApiResource(
    "pool",
    "pools",
    PATH,
    argument=PoolArgument,
    example="slow-partner",
    listing=columns("code", "name", ("status", "status", STATUS), *LIMITS),
    details=columns(
        ("pool", "code"), "name", "description", ("status", "status", STATUS), *LIMITS, "id",
        *fmt.TIMES,
    ),
    is_name=lambda name: is_code(name) or bool(re.fullmatch("dpl_(default|[0-9A-Z]{13})", name)),
)  # fmt: skip
app = pools.app


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFilters:
    status: PoolStatus | None = option("Only pools of this status.", case_sensitive=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    rate: str | None = option(
        "Deliveries per minute, or none for no limit.",
        api="rateLimit",
        convert=_parse_rate,
        metavar="N|none",
    )
    concurrency: int | None = option("Deliveries at the same time.", min=1, max=MAX_CONCURRENCY)
    name: str | None = option("A name for people.")
    description: str | None = option("What the pool is for.")


pools.add_list("List your pools and the shared ones.", filters=PoolFilters)
pools.add_show("Show one pool: how fast it delivers, and how many at once.")


@subcommand(
    app,
    "put",
    "muster pools put slow-partner --rate 600 --concurrency 5",
    "muster pools put slow-partner --rate none",
)
async def put(code: PoolArgument, settings: PoolSettings, shell: CommandContext) -> None:
    """Create a pool, or change one that exists; a change takes effect at once."""
    body, path = request_fields(settings), pools.path_of(code)
    async with shell.connect() as client:
        try:
            pool = await client.get(path)
        except ProblemResponseError as problem:
            if problem.status != 404:
                raise
            pool = await client.post(PATH, {"code": code, "name": name_from_code(code), **body})
        else:
            if not body:
                raise InputError("Say what to change: --rate, --concurrency, --name, …")
            pool = await client.patch(path, body)
    shell.print(pool, f"Pool {code}: {describe_limits(pool)}.")


pools.add_verb(
    "suspend",
    "Suspend a pool: deliveries under way finish, the others wait until it is activated.",
    "Pool {code} is suspended.",
)
pools.add_verb("activate", "Let a suspended or archived pool deliver.", "Pool {code} is active.")
pools.add_remove("archive", "Archive a pool that is no longer used.", "pool", "archived")
subcommand(app, "stats", "muster pools stats --watch")(stats)


def describe_limits(pool: Document) -> str:
    limit: Any = pool.get("rateLimit")
    fast = "no rate limit" if limit is None else f"{limit:,} per minute"
    return f"{fast}, {pool.get('concurrency'):,} at once"
