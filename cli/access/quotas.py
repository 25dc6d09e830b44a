"""`muster quotas`: what tenants may store and set up."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cli.shell.context import DATA_DIR, CommandContext, DataDir, command, out, print_json
from cli.shell.errors import CommandError
from cli.shell.lazy import SETTINGS, example
from cli.waits.views import local_time
from core.shared.quotas import Quota

BAR_WIDTH = 20
WARN_SHARE = 0.8

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="See how much of its quotas a tenant has used; give a tenant limits of its own.",
)

TenantArgument = Annotated[str, typer.Argument(help="The tenant's name.")]
QuotaArgument = Annotated[Quota, typer.Argument(help="The quota.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="MUSTER_DATABASE_URL",
        help="PostgreSQL to write to; that of the local instance if not given.",
    ),
]


@app.command("list", epilog=example("muster quotas list --json"))
@command
async def list_(shell: CommandContext) -> None:
    """List the quotas of the key's tenant: used, limit, and when they begin anew."""
    async with shell.connect() as client:
        found = await client.get("/api/quotas")
    if shell.as_json:
        print_json(found)
    else:
        out.print(quotas_view(found["items"]))


@app.command("set", epilog=example("muster quotas set acme storedBytes 50000000000"))
@command
async def set_(
    tenant: TenantArgument,
    name: QuotaArgument,
    value: Annotated[int, typer.Argument(min=0, max=2**62 - 1, help="The limit; 0: none.")],
    database_url: DatabaseUrl = None,
    data_dir: DataDir = DATA_DIR,
) -> None:
    """Give a tenant a limit of its own, straight in the database; it holds within two seconds."""
    # Imported here: `muster quotas --help` needs no driver.
    from cli.operations.migrate import local_dsn  # noqa: PLC0415
    from cli.operations.provision import set_quota  # noqa: PLC0415

    if not await set_quota(database_url or local_dsn(data_dir), tenant, name, value):
        raise CommandError(f"There is no tenant {tenant}.")
    limit = f"{value:,}" if value else "no limit"
    out.print(f"{tenant}: {name} is {limit} from now on.", markup=False)


@app.command("clear", epilog=example("muster quotas clear acme storedBytes"))
@command
async def clear(
    tenant: TenantArgument,
    name: QuotaArgument,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = DATA_DIR,
) -> None:
    """Let a tenant have the limit that all have."""
    from cli.operations.migrate import local_dsn  # noqa: PLC0415
    from cli.operations.provision import set_quota  # noqa: PLC0415

    if not await set_quota(database_url or local_dsn(data_dir), tenant, name, None):
        raise CommandError(f"There is no tenant {tenant}.")
    out.print(f"{tenant}: {name} is that of all tenants from now on.", markup=False)


def quotas_view(quotas: Sequence[dict[str, Any]]) -> Table:
    """One line for each quota, with a bar for how much of it is used."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("quota")
    table.add_column("used", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("")
    table.add_column("%", justify="right")
    table.add_column("begins anew")
    for quota in quotas:
        used, limit = int(quota["used"]), quota.get("limit")
        share = used / limit if limit else 0.0
        table.add_row(
            Text(str(quota["name"])),
            f"{used:,}",
            (f"{limit:,}" if limit else "none") + (" (own)" if quota.get("own") else ""),
            _bar(share) if limit else "",
            f"{share:.0%}" if limit else "",
            local_time(quota.get("resetsAt")),
        )
    return table


def _bar(share: float) -> Text:
    full = min(BAR_WIDTH, round(share * BAR_WIDTH))
    style = "red" if share >= 1 else "yellow" if share >= WARN_SHARE else "green"
    return Text("█" * full, style=style).append("░" * (BAR_WIDTH - full), style="dim")
