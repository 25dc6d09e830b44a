"""The keys in use for the database's secrets, compared with those of the process."""

import asyncpg

from core.shared.errors import MusterError
from storage.encryption.cipher import ENCRYPTION_ERRORS, SETTING, KeyRing, Location, key_ring
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

_TEST = b"muster"


class WrongKeyError(MusterError):
    """This instance lacks the keys of the database's secrets."""


def _at(key_id: str) -> Location:
    return Location(0, "encryption_keys", key_id, "test_value")


async def check(pool: Pool) -> None:
    """Check that we have every key in use, and register the one that we encrypt with."""
    ring = key_ring()
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["lock_until_commit"], AdvisoryLock.REGISTER_KEYS)
        for row in await conn.fetch(Q["list_encryption_keys"]):
            _verify(ring, row)
        test_value = ring.encrypt(_TEST, _at(ring.current))
        await conn.execute(Q["add_encryption_key"], ring.current, test_value)


async def is_complete(pool: Pool) -> bool:
    """Return True once no secret is stored as plain text."""
    return any((await in_use(pool)).values())


async def in_use(pool: Pool | Connection) -> dict[str, bool]:
    """Return the registered keys, and whether all secrets were once under each."""
    rows = await pool.fetch(Q["list_encryption_keys"])
    return {row["key_id"]: row["completed"] for row in rows}


async def complete(pool: Pool | Connection, key_id: str) -> None:
    """Record that every secret was encrypted under this key, or that none is plain any more."""
    await pool.execute(Q["complete_encryption_key"], key_id)


async def forget(pool: Pool | Connection, key_ids: list[str]) -> None:
    """Allow instances to start without these keys: nothing is encrypted under them."""
    await pool.execute(Q["drop_encryption_keys"], key_ids)


def _verify(ring: KeyRing, row: asyncpg.Record) -> None:
    key_id = row["key_id"]
    try:
        ring.decrypt(row["test_value"], _at(key_id))
    except ENCRYPTION_ERRORS:
        raise WrongKeyError(
            f"the database has secrets under key {key_id}, and this instance has only "
            f"{', '.join(ring.key_ids)}: add that key to {SETTING}, or restore the file "
            "secret_key of the data folder it was made in"
        ) from None
