"""Encrypts what was stored before there was encryption, once, in the background."""

import structlog

from storage import encryption_keys, reencryption
from storage.encryption import key_ring
from storage.pool import Pool

log = structlog.get_logger("encryption")


class EncryptionSweep:
    """May be killed at any line; a later round makes up for it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._is_done = False

    async def run(self) -> None:
        """Encrypt plain secrets, unless that was done; what somebody holds is left for later."""
        if self._is_done:
            return
        if await encryption_keys.is_complete(self._pool):
            self._is_done = True
            return
        await encryption_keys.check(self._pool)
        walk = await reencryption.encrypt_plain(self._pool)
        log.info("encryption.swept", seen=walk.seen, encrypted=walk.renewed, busy=walk.busy)
        if not walk.renewed and not walk.busy:
            # Nothing was left: a row that was stored plain meanwhile would have been seen.
            await encryption_keys.complete(self._pool, key_ring().current)
            self._is_done = True
