"""The audit log of keys and secrets, written in the transaction of each change."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

COMMAND_LINE = "command line"
"""The actor of changes by CLI commands. Other actors are prefixes of API keys."""


class AuditAction(StrEnum):
    KEY_CREATED = "key.created"
    KEY_REVOKED = "key.revoked"
    WEBHOOK_SECRET_ROTATED = "webhook_secret.rotated"  # noqa: S105  an action's name
    SIGNING_SECRET_ROTATED = "signing_secret.rotated"  # noqa: S105  an action's name
    ENCRYPTION_KEY_ROTATION_STARTED = "encryption_key.rotation_started"
    ENCRYPTION_KEY_ROTATED = "encryption_key.rotated"
    ENCRYPTION_KEY_REMOVED = "encryption_key.removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    audit_id: int
    actor: str
    action: str
    object: str
    at: float


async def add(
    conn: Connection, tenant: int, actor: str, action: AuditAction, objects: Sequence[str]
) -> None:
    """Log that `actor` did this to each of the objects."""
    await conn.execute(Q["add_audit_entries"], tenant, actor, action.value, list(objects))


async def page(pool: Pool, tenant: int, before: int | None, limit: int) -> list[AuditEntry]:
    """Read the next entries of a listing, newest first."""
    rows = await pool.fetch(Q["list_audit_entries"], tenant, before, limit)
    return [AuditEntry(**row) for row in rows]


async def forget(pool: Pool, retention: float, limit: int) -> int:
    """Delete a batch of entries older than `retention` seconds; return how many."""
    return len(await pool.fetch(Q["forget_audit_entries"], retention, limit))
