"""What deliveries are signed with. Several may be live, so that one can be replaced unnoticed."""

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
"""In the place of a subscription: the tenant's own jobs."""
OWN_JOBS = "own jobs"
"""The same, for people."""
MAX_LIVE = 5
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """A live one, with its end if that is known."""

    secret: bytes = field(repr=False)
    created_at: float
    expires_at: float | None


def new_secret() -> bytes:
    """A new one that nobody can guess."""
    return secrets.token_bytes(SECRET_BYTES)


async def live(pool: Pool | Connection, tenant: int, subscription_id: str) -> list[WebhookSecret]:
    """Those that sign, newest first."""
    rows = await pool.fetch(Q["live_webhook_secrets"], tenant, subscription_id)
    location = webhook_secret_at(tenant, subscription_id)
    return [_secret(row, location) for row in rows]


async def own(pool: Pool, tenant: int) -> list[WebhookSecret]:
    """Those of the tenant's own jobs; the first is made when it is first asked for."""
    found = await live(pool, tenant, OWN)
    if found:
        return found
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["hold_tenant"], tenant)
        found = await live(conn, tenant, OWN)
        if not found:  # nobody else was quicker
            await add(conn, tenant, OWN, new_secret())
            found = await live(conn, tenant, OWN)
        return found


async def own_of(pool: Pool, tenants: Sequence[int]) -> dict[int, tuple[bytes, ...]]:
    """The same of several tenants, without the rest."""
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
    """Put a new one first; the others sign beside it for `overlap` seconds more.

    None: the tenant has no such subscription.
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
    """Those that sign, without any that cannot be read: to replace such a one is the remedy."""
    location, found = webhook_secret_at(tenant, subscription_id), []
    for row in await conn.fetch(Q["live_webhook_secrets"], tenant, subscription_id):
        with suppress(*ENCRYPTION_ERRORS):
            found.append(_secret(row, location))
    return found


async def add(conn: Connection, tenant: int, subscription_id: str, secret: bytes) -> None:
    """One more, in a transaction of the caller's."""
    stored = encrypt_bytes(secret, webhook_secret_at(tenant, subscription_id))
    await conn.execute(Q["add_webhook_secret"], tenant, subscription_id, stored)


def _secret(row: asyncpg.Record, location: Location) -> WebhookSecret:
    return WebhookSecret(
        decrypt_bytes(row["secret"], location), row["created_at"], row["expires_at"]
    )
