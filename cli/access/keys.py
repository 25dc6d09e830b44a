"""`muster keys`: API keys of the tenant."""

import re
from typing import Any

from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.context import CommandContext, err, print_json, subcommand
from cli.shell.database import DatabaseOptions
from cli.shell.errors import InputError
from cli.shell.options import argument, option
from cli.shell.output import columns
from cli.shell.parsing import parse_duration
from cli.shell.resource import ApiResource
from core.access.permissions import ALL_PERMISSIONS, Permission

PATH = "/api/keys"
# The name of the one tenant that shares its pools; no other tenant can be called like it.
ANCHOR = "@anchor"


def _permissions(given: list[str] | None) -> str:
    is_full = set(given or ()) >= {permission.value for permission in ALL_PERMISSIONS}
    return "all" if is_full else ", ".join(given or ())


def _moment_or_never(value: Any) -> str:
    return fmt.moment(value) or "never"


keys = ApiResource(
    "key",
    "keys",
    PATH,
    argument=argument("The part of the key between mk_ and the next _.", metavar="PREFIX"),
    example="3f9ac1d2",
    listing=columns(
        "prefix",
        "name",
        ("permissions", "permissions", _permissions),
        ("created", "createdAt", fmt.moment),
        ("expires", "expiresAt", _moment_or_never),
        ("last used", "lastUsedAt", _moment_or_never),
        ("created by", "createdBy"),
        ("state", "revokedAt", fmt.either(Text("revoked", "red"), Text("live", "green"))),
    ),
)
app = keys.app


@subcommand(
    app,
    "create",
    "muster keys create billing --allow waits:write --allow callbacks:write --expires-in 30d",
)
async def create(
    shell: CommandContext,
    name: str = argument("What the key is for."),
    allow: list[Permission] | None = option("A permission; repeatable. All of them if not given."),
    expires_in: str | None = option(
        "Lifetime, as in 12h or 30d; that of your own key if not given."
    ),
) -> None:
    """Create a key and print it. It is shown only once: Muster stores only its hash.

    The key expires with the key that creates it at the latest, and is revoked with it.
    """
    body: dict[str, Any] = {
        "name": name,
        "permissions": [permission.value for permission in allow or ALL_PERMISSIONS],
    }
    if expires_in:
        body["expiresInSeconds"] = parse_duration(expires_in).total_seconds()
    created = await shell.call("post", PATH, body=body)
    print_json(created) if shell.as_json else _print_key(created["key"])


@subcommand(app, "first", "muster keys first acme --database-url postgresql://…")
async def first(
    database: DatabaseOptions,
    tenant: str = argument(
        f"The tenant's name; created if it is new. {ANCHOR} is the tenant whose pools "
        "every tenant may use, and whose subscriptions receive every tenant's events."
    ),
) -> None:
    """Create a tenant and its admin key directly in the database, without a key."""
    if tenant != ANCHOR and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", tenant):
        raise InputError("A tenant's name has lower-case letters, digits and dashes.")
    # Imported here: `muster keys --help` needs no driver.
    from host.provision import create_admin_key  # noqa: PLC0415

    async with database.open("keys") as pool:
        _print_key(await create_admin_key(pool, tenant))


keys.add_list(
    "List the keys, newest first, without their secrets.", "muster keys list --json", limit=None
)
keys.add_remove(
    "revoke",
    "Revoke a key and all keys that it created: they stop working within ten seconds.",
    "prefix",
    "revoked",
    note=", with all keys that it created",
)


def _print_key(key: str) -> None:
    """Print only the key to standard output, so that a script can catch it."""
    err.print("Keep this key: it is not shown again.", style="yellow")
    print(key)
