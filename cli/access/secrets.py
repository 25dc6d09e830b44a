"""`muster secrets`: the keys that encrypt stored secrets, directly in the database."""

import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.text import Text

from cli.access.secret_keys import SecretKeys, use_secret_keys
from cli.shell import formats as fmt
from cli.shell.bulk import progress
from cli.shell.client import Document
from cli.shell.context import JsonFlag, out, print_json, print_result, subcommand
from cli.shell.database import DatabaseOptions
from cli.shell.errors import CommandError
from cli.shell.lazy import command_group
from cli.shell.options import argument
from cli.shell.output import columns, table
from core.access.secret_keys import KEY_SIZE, key_id
from storage.encryption import key_file, reencryption, rotation
from storage.encryption import keys as encryption_keys
from storage.encryption.cipher import SETTING
from storage.encryption.secret_tables import PLAIN
from storage.postgres.pool import Pool


def _role(secret_key: Document) -> Text:
    role = str(secret_key["role"])
    is_wrong = role in {"missing", "not encrypted"} and secret_key["secrets"]
    return Text(role, style="red" if is_wrong else "")


KEYS = columns(("key", "keyId"), ("role", _role), ("secrets", "secrets", fmt.number))
app = command_group("muster secrets status")


@subcommand(app, "status", "muster secrets status")
async def status(database: DatabaseOptions, as_json: JsonFlag = False) -> None:
    """Count the stored secrets by the key that encrypts them."""
    async with _opened(database) as (pool, keys):
        counts = await _counted(pool, shown=not as_json)
    known = keys.ring.key_ids
    rows = [
        {"keyId": key, "role": _role_of(key, known), "secrets": _total(counts, key)}
        for key in _all_keys(counts, known)
    ]
    print_result({"keys": rows, "tables": counts}, table(KEYS, rows), as_json=as_json)


@subcommand(app, "rotate-key", "muster secrets rotate-key")
async def rotate_key(database: DatabaseOptions, as_json: JsonFlag = False) -> None:
    """Encrypt every secret with a new key, while the instance runs.

    With a key file, a new key is added at its beginning; the old keys stay for older backups. With
    MUSTER_SECRET_KEY, its first key is used: add the new key there and restart before. If a
    rotation is interrupted, run it again.
    """
    async with (
        _opened(database) as (pool, keys),
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
        missing = ", ".join(f"{count} with {key}" for key, count in done.unreadable.items())
        raise CommandError(
            f"Some secrets could not be decrypted and were not changed ({missing}): add the "
            f"missing key to {SETTING} or the key file, or set these secrets again."
        )
    if not as_json:
        out.print(f"Key {done.key_id} encrypts every secret now ({done.renewed} rows changed).")
        for key in done.released:
            out.print(f"Key {key} encrypts nothing any more: {_remedy(keys, key)}")


@subcommand(app, "remove-key", "muster secrets remove-key 3f9ac1d27b0c4e55")
async def remove_key(
    database: DatabaseOptions,
    key: str = argument("The key's id; see `muster secrets status`."),
) -> None:
    """Remove an old key from the key file, once it encrypts nothing.

    Backups that it encrypts cannot be read without it.
    """
    async with (
        _opened(database) as (pool, keys),
        rotation.sole_rotation(pool),
    ):
        if keys.file is None:
            raise CommandError(f"The keys are in {SETTING}: remove the key there and restart.")
        if key not in keys.ring.key_ids:
            raise CommandError(f"There is no key {key}: see `muster secrets status`.")
        if key == keys.ring.current:
            raise CommandError(f"{key} is the current key: run `muster secrets rotate-key` first.")
        total = _total(await _counted(pool, shown=True), key)
        if total:
            raise CommandError(
                f"{key} encrypts {total} secrets: run `muster secrets rotate-key` first."
            )
        await rotation.remove(pool, key)
        left = [one for one in key_file.read(keys.file) if key_id(one) != key]
        key_file.write(keys.file, left)
    out.print(f"Key {key} is removed.")


@asynccontextmanager
async def _opened(database: DatabaseOptions) -> AsyncIterator[tuple[Pool, SecretKeys]]:
    """Open the database and the keys of an instance."""
    keys = use_secret_keys(database.data_dir)
    async with database.open("secrets", max_size=2) as pool:
        yield pool, keys


async def _counted(pool: Pool, *, shown: bool) -> dict[str, Counter[str]]:
    with progress("Counting", None, shown=shown) as show:
        return await reencryption.count_by_key(pool, lambda walk: show(walk.seen, walk.seen))


def _all_keys(counts: dict[str, Counter[str]], known: tuple[str, ...]) -> list[str]:
    found = set().union(*counts.values()) - set(known)
    return [*known, *sorted(found)]


def _total(counts: dict[str, Counter[str]], key: str) -> int:
    return sum(counter[key] for counter in counts.values())


def _role_of(key: str, known: tuple[str, ...]) -> str:
    if key == PLAIN:
        return "not encrypted"
    if key not in known:
        return "missing"
    return "encrypts" if key == known[0] else "decrypts"


def _remedy(keys: SecretKeys, key: str) -> str:
    if keys.file is None:
        return f"it may be removed from {SETTING}."
    return f"`muster secrets remove-key {key}` removes it, once no backup needs it."
