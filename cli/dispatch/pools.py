"""`muster pools`: the rate and the concurrency that deliveries share."""

from dataclasses import dataclass
from functools import partial

from cli.dispatch.pool_stats import STATUS, rate, stats
from cli.shell import formats as fmt
from cli.shell.context import subcommand
from cli.shell.options import argument, option
from cli.shell.output import columns
from cli.shell.parsing import parse_limit
from cli.shell.resource import ApiResource
from core.dispatch.pool import MAX_CONCURRENCY, MAX_RATE, PoolStatus
from core.dispatch.subscription import is_code

PATH = "/api/dispatch-pools"
LIMITS = (
    ("per minute", "rateLimit", rate),
    ("at once", "concurrency", fmt.number),
    ("owner", "anchorLevel", fmt.either("shared", "yours")),
)
pools = ApiResource(
    "pool", "pools", PATH,
    argument=argument("The pool's code or id.", metavar="POOL"),
    example="slow-partner",
    listing=columns("code", "name", ("status", "status", STATUS), *LIMITS),
    details=columns(
        ("pool", "code"), "name", "description", ("status", "status", STATUS), *LIMITS, "id",
        *fmt.TIMES,
    ),
    id_pattern="dpl_(default|[0-9A-Z]{13})",
    is_code=is_code,
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
        convert=partial(parse_limit, "--rate", MAX_RATE),
        metavar="N|none",
    )
    concurrency: int | None = option("Deliveries at the same time.", min=1, max=MAX_CONCURRENCY)
    name: str | None = option("A name for people.")
    description: str | None = option("What the pool is for.")


pools.add_list("List your pools and the shared ones.", filters=PoolFilters)
pools.add_show("Show one pool: how fast it delivers, and how many at once.")
pools.add_put(
    PoolSettings,
    "Create a pool, or change one that exists; a change takes effect at once.",
    "muster pools put slow-partner --rate 600 --concurrency 5",
    "muster pools put slow-partner --rate none",
    describe=lambda pool: f"{rate(pool['rateLimit'])} per minute, {pool['concurrency']:,} at once",
)
pools.add_verb(
    "suspend",
    "Suspend a pool: deliveries under way finish, the others wait until it is activated.",
    "Pool {code} is suspended.",
)
pools.add_verb("activate", "Let a suspended or archived pool deliver.", "Pool {code} is active.")
pools.add_remove("archive", "Archive a pool that is no longer used.", "pool", "archived")
subcommand(app, "stats", "muster pools stats --watch")(stats)
