"""Lists and rotates the secrets that sign the tokens in URLs."""

from dataclasses import dataclass

from core.dispatch.job import ANCHOR
from storage.encryption.secret_values import encrypt_bytes, signing_secret_at
from storage.postgres import audit_log, change_notifications
from storage.postgres.audit_log import COMMAND_LINE, AuditAction
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

KEEP_RETIRED = 30 * 86_400.0
"""Seconds for which a listing still shows an expired secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecretAge:
    """The time span of one signing secret: signs since, accepted until."""

    secret_id: int
    purpose: str
    created_at: float
    retired_at: float | None
    age: float
    is_live: bool


async def rotate(pool: Pool, purpose: str, fresh: bytes, grace: float) -> int:
    """Sign with a new secret from now on; accept the others for `grace` seconds more."""
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["retire_secrets"], purpose, grace)
        await conn.execute(Q["forget_secrets"], KEEP_RETIRED)
        stored = encrypt_bytes(fresh, signing_secret_at(purpose))
        secret_id: int = await conn.fetchval(Q["add_secret"], purpose, stored)
        action, rotated = AuditAction.SIGNING_SECRET_ROTATED, [f"{purpose} {secret_id}"]
        await audit_log.add(conn, ANCHOR, COMMAND_LINE, action, rotated)
        await change_notifications.notify(conn, ChangeTopic.SIGNING_SECRETS)
        return secret_id


async def list_ages(pool: Pool) -> list[SigningSecretAge]:
    """Read the ages of all secrets by purpose, newest first."""
    return [SigningSecretAge(**row) for row in await pool.fetch(Q["list_secrets"])]
