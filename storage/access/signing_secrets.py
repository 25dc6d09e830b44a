"""The secrets that sign the tokens in URLs: listed and replaced; access.py reads them to sign."""

from dataclasses import dataclass

from core.dispatch.job import ANCHOR
from storage.encryption.secret_values import encrypt_bytes, signing_secret_at
from storage.postgres import audit_log, change_notifications
from storage.postgres.audit_log import COMMAND_LINE, AuditAction
from storage.postgres.change_notifications import ChangeTopic
from storage.postgres.pool import Pool
from storage.postgres.queries import Q

KEEP_RETIRED = 30 * 86_400.0
"""Seconds for which a listing still shows a secret that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningSecretAge:
    """One signing secret, without the secret: since when it signs, until when it is accepted."""

    secret_id: int
    purpose: str
    created_at: float
    retired_at: float | None
    age: float
    is_live: bool


async def rotate(pool: Pool, purpose: str, fresh: bytes, grace: float) -> int:
    """Sign with a new secret from now on; the others are accepted for `grace` seconds more."""
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(Q["retire_secrets"], purpose, grace)
        await conn.execute(Q["forget_secrets"], KEEP_RETIRED)
        stored = encrypt_bytes(fresh, signing_secret_at(purpose))
        secret_id: int = await conn.fetchval(Q["add_secret"], purpose, stored)
        await audit_log.add(
            conn,
            ANCHOR,
            COMMAND_LINE,
            AuditAction.SIGNING_SECRET_ROTATED,
            [f"{purpose} {secret_id}"],
        )
        await change_notifications.notify(conn, ChangeTopic.SIGNING_SECRETS)
        return secret_id


async def list_ages(pool: Pool) -> list[SigningSecretAge]:
    """Every secret by purpose, the newest first."""
    return [SigningSecretAge(**row) for row in await pool.fetch(Q["list_secrets"])]
