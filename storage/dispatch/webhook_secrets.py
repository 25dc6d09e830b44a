"""Secrets that sign deliveries. Several may be live, so that rotation interrupts nothing."""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import asyncpg

from storage.encryption.cipher import ENCRYPTION_ERRORS, Location
from storage.encryption.secret_values import decrypt_bytes, encrypt_bytes, webhook_secret_at
from storage.postgres import audit_log, change_notifications
from storage.postgres.audit_log import COMMAND_LINE, AuditAction
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

OWN = ""
"""The subscription id that stands for the tenant's direct jobs."""
OWN_JOBS = "own jobs"
"""The label of OWN in messages."""
MAX_LIVE = 5
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """A live secret, with its expiry if it has one."""

    secret: bytes = field(repr=False)
    created_at: float
    expires_at: float | None


def new_secret() -> bytes:
    """Generate a random secret."""
    return secrets.token_bytes(SECRET_BYTES)


async def live(pool: Pool | Connection, tenant: int, subscription_id: str) -> list[WebhookSecret]:
    """Read the live secrets, newest first."""
    rows = await pool.fetch(Q["live_webhook_secrets"], tenant, subscription_id)
    location = webhook_secret_at(tenant, subscription_id)
    return [_secret(row, location) for row in rows]


async def own(pool: Pool, tenant: int) -> list[WebhookSecret]:
    """Read the secrets of the tenant's direct jobs; create the first one when needed."""
    found = await live(pool, tenant, OWN)
    if found:
        return found
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["hold_tenant"], tenant)
        found = await live(conn, tenant, OWN)
        if not found:  # no other process has created one
            await add(conn, tenant, OWN, new_secret())
            found = await live(conn, tenant, OWN)
        return found


async def own_of(pool: Pool, tenants: Sequence[int]) -> dict[int, tuple[bytes, ...]]:
    """Read the secrets of the direct jobs of several tenants."""
    found = {tenant: await own(pool, tenant) for tenant in tenants}
    return {tenant: tuple(one.secret for one in each) for tenant, each in found.items()}


async def rotate(
    pool: Pool,
    tenant: int,
    subscription_id: str,
    fresh: bytes,
    overlap: float,
    actor: str = COMMAND_LINE,
) -> list[WebhookSecret] | None:
    """Add a new secret; the others remain live for `overlap` seconds.

    Return None if the tenant has no such subscription.
    """
    async with pool.acquire() as conn, conn.transaction():
        if subscription_id == OWN:
            await conn.execute(Q["hold_tenant"], tenant)
        elif await conn.fetchval(Q["hold_subscription"], tenant, subscription_id) is None:
            return None
        await conn.execute(Q["end_webhook_secrets"], tenant, subscription_id, overlap)
        await add(conn, tenant, subscription_id, fresh)
        await conn.execute(Q["trim_webhook_secrets"], tenant, subscription_id, MAX_LIVE)
        await conn.execute(Q["raise_subscription_version"], tenant, subscription_id)
        rotated = subscription_id or OWN_JOBS
        await audit_log.add(conn, tenant, actor, AuditAction.WEBHOOK_SECRET_ROTATED, [rotated])
        await change_notifications.notify(conn, ChangeTopic.SUBSCRIPTIONS, tenant)
        return await _readable(conn, tenant, subscription_id)


async def _readable(conn: Connection, tenant: int, subscription_id: str) -> list[WebhookSecret]:
    """Read the live secrets that can be decrypted. Rotation replaces the others."""
    location, found = webhook_secret_at(tenant, subscription_id), []
    for row in await conn.fetch(Q["live_webhook_secrets"], tenant, subscription_id):
        with suppress(*ENCRYPTION_ERRORS):
            found.append(_secret(row, location))
    return found


async def add(conn: Connection, tenant: int, subscription_id: str, secret: bytes) -> None:
    """Add a secret in the caller's transaction."""
    stored = encrypt_bytes(secret, webhook_secret_at(tenant, subscription_id))
    await conn.execute(Q["add_webhook_secret"], tenant, subscription_id, stored)


def _secret(row: asyncpg.Record, location: Location) -> WebhookSecret:
    return WebhookSecret(
        decrypt_bytes(row["secret"], location), row["created_at"], row["expires_at"]
    )
