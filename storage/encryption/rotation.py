"""Encrypts every secret under the current key while all processes keep working."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from core.dispatch.job import ANCHOR
from core.shared.errors import ConflictError, MusterError
from storage.encryption import keys, reencryption
from storage.encryption.cipher import key_ring
from storage.encryption.reencryption import ShowProgress
from storage.postgres import audit_log
from storage.postgres.advisory_locks import AdvisoryLock
from storage.postgres.audit_log import COMMAND_LINE, AuditAction
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MAX_WALKS = 20


class UnfinishedRotationError(MusterError):
    """Secrets under other keys than the current one keep appearing."""


@dataclass(frozen=True, slots=True)
class Rotation:
    key_id: str
    renewed: int
    released: list[str] = field(default_factory=list)
    """Keys that no secret is encrypted under any more."""
    unreadable: dict[str, int] = field(default_factory=dict)
    """Unchanged secrets that could not be decrypted, by key."""


@asynccontextmanager
async def sole_rotation(pool: Pool) -> AsyncIterator[None]:
    """Hold the lock that admits one rotation at a time; raises ConflictError."""
    async with pool.acquire() as conn:
        if not await conn.fetchval(Q["try_lock_rotation"], AdvisoryLock.ROTATE_KEYS):
            raise ConflictError("another rotation of keys is under way: wait for its end")
        try:
            yield
        finally:
            await conn.execute(Q["unlock_rotation"], AdvisoryLock.ROTATE_KEYS)


async def rotate(pool: Pool, show: ShowProgress | None = None) -> Rotation:
    """Encrypt everything under the current key; can be interrupted and repeated.

    Processes may still write under the old key for a moment, so walks repeat until one finds
    nothing to do.
    """
    await keys.check(pool)
    current, renewed = key_ring().current, 0
    async with pool.acquire() as conn:
        await _audit(conn, AuditAction.ENCRYPTION_KEY_ROTATION_STARTED, current)
    for _ in range(MAX_WALKS):
        walk = await reencryption.reencrypt_all(pool, show)
        renewed += walk.renewed
        if not walk.renewed and not walk.busy:
            break
    else:
        raise UnfinishedRotationError(
            f"secrets keep being stored under other keys than {current}: restart the processes "
            "that still encrypt with an old key, then rotate again"
        )
    if walk.unreadable:
        return Rotation(current, renewed, [], dict(walk.unreadable))
    async with pool.acquire() as conn, conn.transaction():
        await keys.complete(conn, current)
        released = [key for key in await keys.in_use(conn) if key != current]
        await keys.forget(conn, released)
        await _audit(conn, AuditAction.ENCRYPTION_KEY_ROTATED, current)
    return Rotation(current, renewed, released)


async def remove(pool: Pool, key_id: str) -> None:
    """Allow instances to start without this key; nothing may be encrypted under it."""
    async with pool.acquire() as conn, conn.transaction():
        await keys.forget(conn, [key_id])
        await _audit(conn, AuditAction.ENCRYPTION_KEY_REMOVED, key_id)


async def _audit(conn: Connection, action: AuditAction, key_id: str) -> None:
    """Record the action in the anchor's audit log, as it concerns all tenants."""
    await audit_log.add(conn, ANCHOR, COMMAND_LINE, action, [key_id])
