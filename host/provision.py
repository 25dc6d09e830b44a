"""Prepare a database for the first request: the schema, a tenant and an admin key."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from core.access.permissions import ALL_PERMISSIONS, split_key
from host.errors import HostError
from storage.access import keys as access
from storage.encryption import keys
from storage.postgres.migrate import MigrationOptions, migrate
from storage.postgres.pool import CONNECTION_ERRORS, Pool, PoolOptions, open_pool

FIRST_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The migrations that were applied, and the admin key if a new one was needed."""

    migrations: list[str]
    new_key: str | None = field(repr=False)


async def prepare_database(
    dsn: str, known_key: str | None, progress: Callable[[str], None] = lambda _: None
) -> Provisioned:
    """Migrate; make the first tenant and, unless the known key still works, an admin key."""
    try:
        applied = await migrate(dsn, MigrationOptions(progress=progress))
        pool = await open_pool(PoolOptions(dsn=dsn, name="up", max_size=1))
        try:
            await keys.check(pool)
            if known_key is not None and await _is_live(pool, known_key):
                await access.create_tenant(pool, FIRST_TENANT)
                return Provisioned(applied, None)
            return Provisioned(applied, await create_admin_key(pool, FIRST_TENANT))
        finally:
            await pool.close()
    except CONNECTION_ERRORS as error:
        raise HostError(f"The database does not answer: {error}.") from error


async def create_admin_key(pool: Pool, tenant: str) -> str:
    """Create an admin key for a tenant, and the tenant if it is new."""
    return await access.create_key(
        pool,
        access.NewKey(
            tenant=await access.create_tenant(pool, tenant),
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
