"""`muster secrets`: the keys that stored secrets are encrypted under, straight in the database."""

import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from cli.access.secret_keys import SecretKeys, use_secret_keys
from cli.operations.migrate import local_dsn
from cli.shell.context import DATA_DIR, DataDir, JsonFlag, command, out, print_json
from cli.shell.errors import CommandError
from cli.shell.lazy import SETTINGS, example
from cli.shell.progress import progress
from core.access.secret_keys import KEY_SIZE, key_id
from core.shared.errors import MusterError
from storage.encryption import key_file, reencryption, rotation
from storage.encryption import keys as encryption_keys
from storage.encryption.cipher import SETTING
from storage.encryption.reencryption import ReencryptionProgress
from storage.encryption.secret_tables import PLAIN
from storage.postgres.pool import CONNECTION_ERRORS, Pool, PoolOptions, open_pool
from storage.postgres.schema_check import SchemaMismatchError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    context_settings=SETTINGS,
    help="See which keys encrypt stored secrets; rotate and remove keys.",
)

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar="MUSTER_DATABASE_URL",
        help="PostgreSQL to work on; that of the local instance if not given.",
    ),
]


@app.command("status", epilog=example("muster secrets status"))
@command
async def status(
    database_url: DatabaseUrl = None, data_dir: DataDir = DATA_DIR, as_json: JsonFlag = False
) -> None:
    """Count the stored secrets by the key they are encrypted under."""
    async with _opened(database_url, data_dir) as (pool, keys):
        counts = await _counted(pool, shown=not as_json)
    known = keys.ring.key_ids
    rows = [(key, _role(key, known), _total(counts, key)) for key in _all_keys(counts, known)]
    if as_json:
        names = ("keyId", "role", "secrets")
        print_json({"keys": [dict(zip(names, row, strict=True)) for row in rows], "tables": counts})
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("key", "", "secrets"):
        table.add_column(title)
    for key, role, total in rows:
        style = "red" if role in {"missing", "not encrypted"} and total else ""
        table.add_row(Text(key), Text(role, style=style), str(total))
    out.print(table)


@app.command("rotate-key", epilog=example("muster secrets rotate-key"))
@command
async def rotate_key(
    database_url: DatabaseUrl = None, data_dir: DataDir = DATA_DIR, as_json: JsonFlag = False
) -> None:
    """Encrypt every secret under a new key, while the instance runs.

    With a key file, a new key is put first in it; the old ones stay there, for older backups.
    With MUSTER_SECRET_KEY, its first key is used: put the new one there and restart before. A
    rotation that was interrupted is finished by the next.
    """
    async with (
        _opened(database_url, data_dir) as (pool, keys),
        rotation.sole_rotation(pool),
    ):
        await encryption_keys.check(pool)
        in_use = await encryption_keys.in_use(pool)
        is_unfinished = len(in_use) > 1 and not in_use[keys.ring.current]
        if keys.file is not None and not is_unfinished:
            key_file.write(keys.file, [secrets.token_bytes(KEY_SIZE), *key_file.read(keys.file)])
        total = sum(counter.total() for counter in (await _counted(pool, shown=False)).values())
        with progress("Encrypting", total, shown=not as_json) as show:
            done = await rotation.rotate(pool, lambda walk: show(walk.renewed, total))
    if as_json:
        print_json(
            {
                "keyId": done.key_id,
                "encrypted": done.renewed,
                "released": done.released,
                "unreadable": done.unreadable,
            }
        )
    if done.unreadable:
        missing = ", ".join(f"{number} under {key}" for key, number in done.unreadable.items())
        raise CommandError(
            f"Some secrets could not be decrypted and stay as they are ({missing}): add the "
            f"missing key to {SETTING} or the key file, or set these secrets anew."
        )
    if not as_json:
        out.print(f"Every secret is under key {done.key_id} ({done.renewed} rows encrypted anew).")
        for key in done.released:
            out.print(f"Nothing is under key {key} any more: {_remedy(keys, key)}")


@app.command("remove-key", epilog=example("muster secrets remove-key 3f9ac1d27b0c4e55"))
@command
async def remove_key(
    key: Annotated[str, typer.Argument(help="The key's id, as `muster secrets status` has it.")],
    database_url: DatabaseUrl = None,
    data_dir: DataDir = DATA_DIR,
) -> None:
    """Remove an old key from the key file, once nothing is encrypted under it.

    Backups that were made under it cannot be read without it any more.
    """
    async with (
        _opened(database_url, data_dir) as (pool, keys),
        rotation.sole_rotation(pool),
    ):
        if keys.file is None:
            raise CommandError(f"The keys are in {SETTING}: remove it there and restart.")
        if key not in keys.ring.key_ids:
            raise CommandError(f"There is no key {key}: see `muster secrets status`.")
        if key == keys.ring.current:
            raise CommandError(f"{key} encrypts: run `muster secrets rotate-key` first.")
        total = _total(await _counted(pool, shown=True), key)
        if total:
            raise CommandError(
                f"{total} secrets are under {key}: run `muster secrets rotate-key` first."
            )
        await rotation.remove(pool, key)
        left = [one for one in key_file.read(keys.file) if key_id(one) != key]
        key_file.write(keys.file, left)
    out.print(f"Key {key} is removed.")


@asynccontextmanager
async def _opened(
    database_url: str | None, data_dir: Path
) -> AsyncIterator[tuple[Pool, SecretKeys]]:
    """The database and the keys of an instance; every error in one sentence."""
    try:
        keys = use_secret_keys(data_dir)
        dsn = database_url or local_dsn(data_dir)
        pool = await open_pool(PoolOptions(dsn=dsn, name="secrets", max_size=2))
        try:
            yield pool, keys
        finally:
            await pool.close()
    except MusterError as error:
        raise CommandError(_sentence(str(error))) from error
    except SchemaMismatchError as error:
        raise CommandError(_sentence(str(error))) from error
    except CONNECTION_ERRORS as error:
        raise CommandError(f"The database does not answer: {error}.") from error


async def _counted(pool: Pool, *, shown: bool) -> dict[str, Counter[str]]:
    with progress("Counting", None, shown=shown) as show:

        def tell(walk: ReencryptionProgress) -> None:
            show(walk.seen, walk.seen)

        return await reencryption.count_by_key(pool, tell)


def _all_keys(counts: dict[str, Counter[str]], known: tuple[str, ...]) -> list[str]:
    found = set().union(*counts.values()) - set(known)
    return [*known, *sorted(found)]


def _total(counts: dict[str, Counter[str]], key: str) -> int:
    return sum(counter[key] for counter in counts.values())


def _role(key: str, known: tuple[str, ...]) -> str:
    if key == PLAIN:
        return "not encrypted"
    if key not in known:
        return "missing"
    return "encrypts" if key == known[0] else "decrypts"


def _remedy(keys: SecretKeys, key: str) -> str:
    if keys.file is None:
        return f"it may be removed from {SETTING}."
    return f"`muster secrets remove-key {key}` removes it, once no backup needs it."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
