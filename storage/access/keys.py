"""Tenants, their API keys, signing secrets, and the id names their waits use."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from core.access.permissions import Permission, compose_key, hash_secret
from core.waits.spec import IdFields
from storage.encryption.secret_values import decrypt_bytes, encrypt_bytes, signing_secret_at
from storage.postgres import audit_log
from storage.postgres.audit_log import COMMAND_LINE, AuditAction
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True)
class Credential:
    """A live key: its tenant, its permissions, and the seconds until it expires, if it does."""

    tenant: int
    name: str
    secret_hash: bytes = field(repr=False)
    permissions: frozenset[str]
    lives: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to create. `prefix` and `secret` are random and come from the caller."""

    tenant: int
    name: str
    prefix: str
    secret: str = field(repr=False)
    permissions: tuple[Permission, ...]
    lifetime: float | None = None


@dataclass(frozen=True, slots=True)
class ChildKey:
    """A key that another key created, with its expiry. The secret is shown only here."""

    key: str = field(repr=False)
    expires_at: float | None


async def create_tenant(pool: Pool, slug: str) -> int:
    """Create the tenant unless the slug exists; return its number."""
    return int(await pool.fetchval(Q["create_tenant"], slug))


async def tenants(pool: Pool) -> dict[str, int]:
    """Return the number of every tenant by slug."""
    return {row["slug"]: row["tenant_id"] for row in await pool.fetch(Q["list_tenants"])}


async def slug_of(pool: Pool, tenant: int) -> str | None:
    slug: str | None = await pool.fetchval(Q["tenant_slug"], tenant)
    return slug


async def create_key(pool: Pool, key: NewKey) -> str:
    """Store the hash of a new key; return the key, which cannot be read again."""
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["create_key"], *_values_of(key))
        await audit_log.add(conn, key.tenant, COMMAND_LINE, AuditAction.KEY_CREATED, [key.prefix])
    return compose_key(key.prefix, key.secret)


async def create_child_key(pool: Pool, key: NewKey, maker: str) -> ChildKey | None:
    """Create a key on behalf of the key with the prefix `maker`; it expires no later than that.

    Return None if the maker is no longer live or lacks a permission of the new key.
    """
    async with pool.acquire() as conn, conn.transaction():
        return await add_child_key(conn, key, maker)


async def add_child_key(conn: Connection, key: NewKey, maker: str) -> ChildKey | None:
    """Do what `create_child_key` does, in the caller's transaction."""
    row = await conn.fetchrow(Q["create_child_key"], *_values_of(key), maker)
    if row is None:
        return None
    await audit_log.add(conn, key.tenant, maker, AuditAction.KEY_CREATED, [key.prefix])
    return ChildKey(compose_key(key.prefix, key.secret), row["expires_at"])


def _values_of(key: NewKey) -> tuple[Any, ...]:
    return (
        key.prefix,
        key.tenant,
        key.name,
        hash_secret(key.secret),
        [permission.value for permission in key.permissions],
        key.lifetime,
    )


async def find_key(pool: Pool, prefix: str) -> Credential | None:
    row = await pool.fetchrow(Q["find_key"], prefix)
    return Credential(**{**row, "permissions": frozenset(row["permissions"])}) if row else None


async def live_prefixes(pool: Pool, prefixes: list[str]) -> set[str]:
    return {row["prefix"] for row in await pool.fetch(Q["live_prefixes"], prefixes)}


async def list_keys(pool: Pool, tenant: int) -> list[dict[str, Any]]:
    """Read a tenant's keys, newest first, without their secrets."""
    return [dict(row) for row in await pool.fetch(Q["list_keys"], tenant)]


async def revoke_key(pool: Pool, tenant: int, prefix: str, actor: str = COMMAND_LINE) -> list[str]:
    """Revoke a key and, generation by generation, the keys it created; return their prefixes.

    Each statement waits for the keys that are being created meanwhile, which lock their maker's
    row.
    """
    async with pool.acquire() as conn, conn.transaction():
        if await conn.fetchval(Q["revoke_key"], tenant, prefix) is None:
            return []
        revoked, makers = [prefix], [prefix]
        while makers:
            rows = await conn.fetch(Q["revoke_children"], tenant, makers)
            makers = [row["prefix"] for row in rows]
            revoked += makers
        await audit_log.add(conn, tenant, actor, AuditAction.KEY_REVOKED, revoked)
        return revoked


async def touch_keys(pool: Pool, prefixes: list[str]) -> None:
    """Store the time at which these keys were used."""
    await pool.execute(Q["touch_keys"], prefixes)


async def signing_secrets(pool: Pool, purpose: str, fresh: bytes) -> list[bytes]:
    """Read the live secrets of a purpose, newest first; store `fresh` if there is none."""
    location = signing_secret_at(purpose)
    rows = await pool.fetch(Q["live_secrets"], purpose)
    if not rows:
        await pool.execute(Q["create_secret"], purpose, encrypt_bytes(fresh, location))
        rows = await pool.fetch(Q["live_secrets"], purpose)
    return [decrypt_bytes(row["secret"], location) for row in rows]


async def list_profiles(pool: Pool, tenant: int) -> list[IdFields]:
    """Read the id names that this tenant's waits use besides the default ones."""
    return [IdFields(*row) for row in await pool.fetch(Q["list_profiles"], tenant)]


async def create_profile(pool: Pool, tenant: int, fields: IdFields) -> None:
    """Store id names; call it before acknowledging the first wait that uses them."""
    await pool.execute(Q["create_profile"], tenant, *msgspec.structs.astuple(fields))
