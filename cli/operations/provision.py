"""What a database needs before the first request: the schema, a tenant, a key for its admin."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cli.shell.errors import CommandError
from core.access.permissions import ALL_PERMISSIONS, split_key
from core.shared.quotas import Quota
from storage.access import keys as access
from storage.access import usage
from storage.encryption import keys
from storage.postgres.migrate import MigrationOptions, migrate
from storage.postgres.pool import CONNECTION_ERRORS, Pool, PoolOptions, open_pool
from storage.postgres.schema_check import SchemaMismatchError

FIRST_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What was done."""

    migrations: list[str]
    new_key: str | None = field(repr=False)


async def prepare_database(
    dsn: str, known_key: str | None, progress: Callable[[str], None] = lambda _: None
) -> Provisioned:
    """Migrate; make the first tenant and, unless the known one still works, an admin key."""
    try:
        applied = await migrate(dsn, MigrationOptions(progress=progress))
        pool = await open_pool(PoolOptions(dsn=dsn, name="up", max_size=1))
        try:
            await keys.check(pool)
            return Provisioned(applied, await _ensure_key(pool, known_key))
        finally:
            await pool.close()
    except CONNECTION_ERRORS as error:
        raise CommandError(f"The database does not answer: {error}.") from error


async def create_first_key(dsn: str, tenant: str) -> str:
    """An admin key for a tenant, which is made if it is new. The schema must be there."""
    async with open_database(dsn, "keys") as pool:
        return await _admin_key(pool, await access.create_tenant(pool, tenant))


@asynccontextmanager
async def open_database(dsn: str, name: str) -> AsyncIterator[Pool]:
    """A database that has its schema already, for a command that works on it directly."""
    try:
        pool = await open_pool(PoolOptions(dsn=dsn, name=name, max_size=1))
        try:
            yield pool
        finally:
            await pool.close()
    except SchemaMismatchError as error:
        raise CommandError(f"{str(error).capitalize()}.") from error
    except CONNECTION_ERRORS as error:
        raise CommandError(f"The database does not answer: {error}.") from error


async def set_quota(dsn: str, tenant: str, quota: Quota, limit: int | None) -> bool:
    """Give a tenant a limit of its own, or take it back; False if there is no such tenant."""
    async with open_database(dsn, "quotas") as pool:
        if limit is None:
            return await usage.clear_quota(pool, tenant, quota)
        return await usage.set_quota(pool, tenant, quota, limit)


async def _ensure_key(pool: Pool, known_key: str | None) -> str | None:
    tenant = await access.create_tenant(pool, FIRST_TENANT)
    if known_key is not None and await _is_live(pool, known_key):
        return None
    return await _admin_key(pool, tenant)


async def _admin_key(pool: Pool, tenant: int) -> str:
    return await access.create_key(
        pool,
        access.NewKey(
            tenant=tenant,
            name="admin",
            # Hex: no "_" that would split the key, no "-" that ends a double click.
            prefix=secrets.token_hex(4),
            secret=secrets.token_hex(32),
            permissions=ALL_PERMISSIONS,
        ),
    )


async def _is_live(pool: Pool, key: str) -> bool:
    parts = split_key(key)
    found = await access.find_key(pool, parts[0]) if parts else None
    return parts is not None and found is not None and found.secret_hash == parts[1]
