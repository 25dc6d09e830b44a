"""`muster keys`: API keys of the tenant."""

import re
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.table import Table
from rich.text import Text

from cli.shell.context import DATA_DIR, CommandContext, DataDir, command, err, out, print_json
from cli.shell.durations import parse_duration
from cli.shell.errors import CommandError, InputError
from cli.shell.lazy import SETTINGS, example
from cli.shell.problems import ProblemResponseError
from cli.waits.views import local_time
from core.access.permissions import ALL_PERMISSIONS, Permission

# The one tenant that no other can be called like.
ANCHOR = "@anchor"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="Create, list and revoke API keys.",
)


@app.command(
    "create",
    epilog=example(
        "muster keys create billing --allow waits:write --allow callbacks:write --expires-in 30d"
    ),
)
@command
async def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    shell: CommandContext,
    allow: Annotated[
        list[Permission] | None,
        typer.Option(help="A permission; once for each. All of them if not given."),
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(help="How long it lives, as in 12h or 30d; as long as your own if not given."),
    ] = None,
) -> None:
    """Create a key and print it. It is shown this once: Muster keeps only its hash.

    It ends with the key that makes it at the latest, and is revoked with it.
    """
    body: dict[str, Any] = {
        "name": name,
        "permissions": [permission.value for permission in allow or ALL_PERMISSIONS],
    }
    if expires_in:
        body["expiresInSeconds"] = parse_duration(expires_in).total_seconds()
    async with shell.connect() as client:
        created = await client.post("/api/keys", body)
    if shell.as_json:
        print_json(created)
        return
    # The key alone goes to standard output, so that a script can catch it.
    err.print("Keep this key: it is not shown again.", style="yellow")
    print(created["key"])


@app.command("first", epilog=example("muster keys first acme --database-url postgresql://…"))
@command
async def first(
    tenant: Annotated[
        str,
        typer.Argument(
            help=f"The tenant's name; made if it is new. {ANCHOR} is whose pools everybody may use "
            "and whose subscriptions take everybody's events."
        ),
    ],
    database_url: Annotated[
        str | None,
        typer.Option(
            envvar="MUSTER_DATABASE_URL",
            help="PostgreSQL to write to; that of the local instance if not given.",
        ),
    ] = None,
    data_dir: DataDir = DATA_DIR,
) -> None:
    """Create a tenant and its admin key, straight in the database: no key is needed for it."""
    if tenant != ANCHOR and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", tenant):
        raise InputError("A tenant's name has lower-case letters, digits and dashes.")
    # Imported here: `muster keys --help` needs no driver.
    from cli.operations.migrate import local_dsn  # noqa: PLC0415
    from cli.operations.provision import create_first_key  # noqa: PLC0415

    key = await create_first_key(database_url or local_dsn(data_dir), tenant)
    err.print("Keep this key: it is not shown again.", style="yellow")
    print(key)


@app.command("list", epilog=example("muster keys list --json"))
@command
async def list_(shell: CommandContext) -> None:
    """List the keys, newest first, without their secrets."""
    async with shell.connect() as client:
        found = await client.get("/api/keys")
    if shell.as_json:
        print_json(found)
    else:
        out.print(keys_view(found["items"]))


@app.command("revoke", epilog=example("muster keys revoke 3f9ac1d2"))
@command
async def revoke(
    prefix: Annotated[str, typer.Argument(help="The part of the key between mk_ and the next _.")],
    shell: CommandContext,
) -> None:
    """Revoke a key at once, and all keys that it made."""
    async with shell.connect() as client:
        try:
            await client.delete(f"/api/keys/{quote(prefix, safe='')}")
        except ProblemResponseError as problem:
            if problem.status != 404:
                raise
            raise CommandError(f"There is no key {prefix}: see `muster keys list`.") from problem
    if shell.as_json:
        print_json({"prefix": prefix, "revoked": True})
    else:
        out.print(f"Key {prefix} is revoked, and all that it made.", markup=False)


def keys_view(keys: Sequence[dict[str, Any]]) -> Table:
    """One line for each key."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in (
        "prefix",
        "name",
        "permissions",
        "created",
        "expires",
        "last used",
        "made by",
        "state",
    ):
        table.add_column(title, overflow="fold")
    for key in keys:
        revoked = bool(key.get("revokedAt"))
        permissions = key.get("permissions") or ()
        is_full = set(permissions) >= {permission.value for permission in ALL_PERMISSIONS}
        table.add_row(
            Text(str(key.get("prefix"))),
            Text(str(key.get("name"))),
            "all" if is_full else Text(", ".join(permissions)),
            local_time(key.get("createdAt")),
            local_time(key.get("expiresAt")) or "never",
            local_time(key.get("lastUsedAt")) or "never",
            Text(str(key.get("createdBy") or "")),
            Text("revoked", style="red") if revoked else Text("live", style="green"),
        )
    return table
