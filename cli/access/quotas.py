"""`muster quotas`: how much a tenant may store and create."""

from typing import Annotated

import typer
from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import out, subcommand
from cli.shell.database import DatabaseOptions
from cli.shell.errors import CommandError
from cli.shell.options import argument
from cli.shell.output import columns
from cli.shell.resource import ApiResource
from core.shared.quotas import Quota

BAR_WIDTH = 20
WARN_SHARE = 0.8
TenantArgument = Annotated[str, typer.Argument(help="The tenant's name.")]
QuotaArgument = Annotated[Quota, typer.Argument(help="The quota.")]


@fmt.RightAligned
def _limit(quota: Document) -> str:
    limit = quota.get("limit")
    return (f"{limit:,}" if limit else "none") + (" (own)" if quota.get("own") else "")


def _share(quota: Document) -> float | None:
    limit = quota.get("limit")
    return int(quota["used"]) / limit if limit else None


def _bar(quota: Document) -> Text:
    share = _share(quota)
    if share is None:
        return Text("")
    full = min(BAR_WIDTH, round(share * BAR_WIDTH))
    style = "red" if share >= 1 else "yellow" if share >= WARN_SHARE else "green"
    return Text("█" * full, style=style).append("░" * (BAR_WIDTH - full), style="dim")


@fmt.RightAligned
def _percent(quota: Document) -> str:
    share = _share(quota)
    return "" if share is None else f"{share:.0%}"


quotas = ApiResource(
    "quota",
    "quotas",
    "/api/quotas",
    listing=columns(
        ("quota", "name"),
        ("used", "used", fmt.number),
        ("limit", _limit),
        ("", _bar),
        ("%", _percent),
        ("resets", "resetsAt", fmt.moment),
    ),
)
app = quotas.app
quotas.add_list(
    "List the quotas of the key's tenant: used, limit, and when each is reset.",
    "muster quotas list --json",
    limit=None,
)


@subcommand(app, "set", "muster quotas set acme storedBytes 50000000000")
async def set_(
    tenant: TenantArgument,
    name: QuotaArgument,
    database: DatabaseOptions,
    value: int = argument("The limit; 0 for none.", min=0, max=2**62 - 1),
) -> None:
    """Set a tenant's own limit, directly in the database; it applies within two seconds."""
    await _store(database, tenant, name, value)
    limit = f"{value:,}" if value else "no limit"
    out.print(f"{tenant}: {name} is {limit} from now on.", markup=False)


@subcommand(app, "clear", "muster quotas clear acme storedBytes")
async def clear(tenant: TenantArgument, name: QuotaArgument, database: DatabaseOptions) -> None:
    """Remove a tenant's own limit, so that the limit of all tenants applies."""
    await _store(database, tenant, name, None)
    out.print(f"{tenant}: {name} is the limit of all tenants from now on.", markup=False)


async def _store(database: DatabaseOptions, tenant: str, quota: Quota, limit: int | None) -> None:
    # Imported here: `muster quotas --help` needs no driver.
    from storage.access import usage  # noqa: PLC0415

    async with database.open("quotas") as pool:
        if limit is None:
            exists = await usage.clear_quota(pool, tenant, quota)
        else:
            exists = await usage.set_quota(pool, tenant, quota, limit)
    if not exists:
        raise CommandError(f"There is no tenant {tenant}.")
