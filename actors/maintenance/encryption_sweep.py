"""Encrypts secrets that were stored before encryption was configured, once, in the background."""

import structlog

from storage.encryption import keys, reencryption
from storage.encryption.cipher import key_ring
from storage.postgres.pool import Pool

log = structlog.get_logger("encryption")


class EncryptionSweep:
    """May be interrupted at any time; a later round continues."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._is_done = False

    async def run(self) -> None:
        """Encrypt plain secrets unless that is done; skip locked rows until the next round."""
        if self._is_done:
            return
        if await keys.is_complete(self._pool):
            self._is_done = True
            return
        await keys.check(self._pool)
        walk = await reencryption.encrypt_plain(self._pool)
        log.info("encryption.swept", seen=walk.seen, encrypted=walk.renewed, busy=walk.busy)
        if not walk.renewed and not walk.busy:
            # No plain row was left: one that was stored meanwhile would have been found.
            await keys.complete(self._pool, key_ring().current)
            self._is_done = True
