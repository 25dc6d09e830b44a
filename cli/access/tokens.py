"""`muster tokens`: the secrets that sign callback and stream URLs, directly in the database."""

import secrets
from typing import TYPE_CHECKING, Any

from rich.text import Text

from cli.shell import formats as fmt
from cli.shell.client import Document
from cli.shell.context import JsonFlag, print_result, subcommand
from cli.shell.database import DatabaseOptions
from cli.shell.errors import InputError
from cli.shell.lazy import command_group
from cli.shell.options import option
from cli.shell.output import columns, table
from cli.shell.parsing import parse_duration
from core.access.tokens import CALLBACK, STREAM
from core.shared.timestamps import to_iso

if TYPE_CHECKING:
    from storage.access.signing_secrets import SigningSecretAge

PURPOSES = (CALLBACK, STREAM)


def _state(secret: Document) -> Text:
    if not secret["live"]:
        return Text("over", style="red")
    return Text("accepted" if secret["retiredAt"] else "signs", style="green")


SECRETS = columns(
    "id",
    "purpose",
    ("created", "createdAt", fmt.moment),
    ("age", "age", fmt.length),
    ("accepted until", "retiredAt", lambda value: fmt.moment(value) or "the next rotation"),
    ("state", _state),
)
app = command_group("muster tokens rotate --grace 24h")


@subcommand(app, "rotate", "muster tokens rotate --grace 24h")
async def rotate(
    database: DatabaseOptions,
    grace: str = option(
        "How long URLs of the old secret stay valid; 0 for not at all.", default="24h"
    ),
    purpose: str | None = option(f"{CALLBACK} or {STREAM}; both if not given."),
    as_json: JsonFlag = False,
) -> None:
    """Sign callback and stream URLs with a new secret; old URLs expire after the grace period.

    Waits that are still open then need new URLs: register them again unchanged.
    """
    if purpose is not None and purpose not in PURPOSES:
        raise InputError(f"--purpose is {' or '.join(PURPOSES)}, not '{purpose}'.")
    seconds = parse_duration(grace, can_be_zero=True).total_seconds()
    # Imported here: `muster tokens --help` needs no driver.
    from cli.access.secret_keys import use_secret_keys  # noqa: PLC0415
    from storage.access import signing_secrets  # noqa: PLC0415

    use_secret_keys(database.data_dir)
    rotated: dict[str, int] = {}
    async with database.open("tokens") as pool:
        for each in [purpose] if purpose else PURPOSES:
            fresh = secrets.token_bytes(32)
            rotated[each] = await signing_secrets.rotate(pool, each, fresh, seconds)
    lines = [f"{each} URLs are signed with secret {id_} now." for each, id_ in rotated.items()]
    until = f"for {fmt.format_duration(seconds)} more" if seconds else "no longer"
    lines.append(f"URLs that were signed before are accepted {until}.")
    document = {"rotated": rotated, "graceSeconds": seconds}
    print_result(document, "\n".join(lines), as_json=as_json)


@subcommand(app, "list", "muster tokens list")
async def list_(database: DatabaseOptions, as_json: JsonFlag = False) -> None:
    """List the signing secrets by age: their numbers, never the secrets."""
    from storage.access import signing_secrets  # noqa: PLC0415

    async with database.open("tokens") as pool:
        found = await signing_secrets.list_ages(pool)
    items = [_document(one) for one in found]
    rows = [{**item, "age": one.age} for item, one in zip(items, found, strict=True)]
    print_result({"items": items}, table(SECRETS, rows), as_json=as_json)


def _document(secret: "SigningSecretAge") -> dict[str, Any]:
    retired = secret.retired_at
    return {
        "id": secret.secret_id,
        "purpose": secret.purpose,
        "createdAt": to_iso(secret.created_at),
        "retiredAt": None if retired is None else to_iso(retired),
        "live": secret.is_live,
    }
