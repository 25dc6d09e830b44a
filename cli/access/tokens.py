"""`muster tokens`: the secrets that sign callback and stream URLs, straight in the database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cli.shell.context import DATA_DIR, DataDir, JsonFlag, command, out, print_json
from cli.shell.durations import format_duration, parse_duration
from cli.shell.errors import InputError
from cli.shell.lazy import SETTINGS, example
from cli.waits.views import local_time
from core.access.tokens import CALLBACK, STREAM
from core.shared.timestamps import to_iso

if TYPE_CHECKING:
    from storage.access.signing_secrets import SigningSecretAge

PURPOSES = (CALLBACK, STREAM)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="List and replace the secrets that sign callback and stream URLs.",
)

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="MUSTER_DATABASE_URL",
        help="PostgreSQL to use; that of the local instance if not given.",
    ),
]


@app.command("rotate", epilog=example("muster tokens rotate --grace 24h"))
@command
async def rotate(
    grace: Annotated[
        str, typer.Option(help="How long URLs signed before are still accepted; 0 for not at all.")
    ] = "24h",
    purpose: Annotated[
        str | None, typer.Option(help=f"{CALLBACK} or {STREAM}; both if not given.")
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = DATA_DIR,
    as_json: JsonFlag = False,
) -> None:
    """Sign callback and stream URLs with a new secret; URLs of the old one end after the grace.

    Waits that are still open then need new URLs: register them again as they are.
    """
    if purpose is not None and purpose not in PURPOSES:
        raise InputError(f"A token is for {' or '.join(PURPOSES)}, not for '{purpose}'.")
    seconds = 0.0 if grace.strip() in {"0", "0s"} else parse_duration(grace).total_seconds()
    # Imported here: `muster tokens --help` needs no driver.
    import secrets  # noqa: PLC0415

    from cli.access.secret_keys import use_secret_keys  # noqa: PLC0415
    from cli.operations.migrate import local_dsn  # noqa: PLC0415
    from cli.operations.provision import open_database  # noqa: PLC0415
    from storage.access import signing_secrets  # noqa: PLC0415

    use_secret_keys(data_dir)
    rotated: dict[str, int] = {}
    async with open_database(database_url or local_dsn(data_dir), "tokens") as pool:
        for each in [purpose] if purpose else PURPOSES:
            fresh = secrets.token_bytes(32)
            rotated[each] = await signing_secrets.rotate(pool, each, fresh, seconds)
    if as_json:
        print_json({"rotated": rotated, "graceSeconds": seconds})
        return
    for each, secret_id in rotated.items():
        out.print(f"{each} URLs are signed with secret {secret_id} from now on.")
    until = f"for {format_duration(seconds)} more" if seconds else "no longer"
    out.print(f"Those signed before are accepted {until}.")


@app.command("list", epilog=example("muster tokens list"))
@command
async def list_(
    database_url: DatabaseUrl = None, data_dir: DataDir = DATA_DIR, as_json: JsonFlag = False
) -> None:
    """List the signing secrets by age: their numbers, never the secrets."""
    from cli.operations.migrate import local_dsn  # noqa: PLC0415
    from cli.operations.provision import open_database  # noqa: PLC0415
    from storage.access import signing_secrets  # noqa: PLC0415

    async with open_database(database_url or local_dsn(data_dir), "tokens") as pool:
        found = await signing_secrets.list_ages(pool)
    if as_json:
        print_json({"items": [_document(one) for one in found]})
    else:
        out.print(secrets_view(found))


def _document(one: "SigningSecretAge") -> dict[str, Any]:
    ended = one.retired_at
    return {
        "id": one.secret_id,
        "purpose": one.purpose,
        "createdAt": to_iso(one.created_at),
        "retiredAt": None if ended is None else to_iso(ended),
        "live": one.is_live,
    }


def secrets_view(found: Sequence["SigningSecretAge"]) -> Table:
    """One line for each secret."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("id", "purpose", "created", "age", "accepted until", "state"):
        table.add_column(title)
    for one in found:
        ended = None if one.retired_at is None else to_iso(one.retired_at)
        signs = "signs" if ended is None else "accepted"
        table.add_row(
            str(one.secret_id),
            one.purpose,
            local_time(to_iso(one.created_at)),
            format_duration(one.age),
            local_time(ended) or "the next rotation",
            Text(signs, style="green") if one.is_live else Text("over", style="red"),
        )
    return table
