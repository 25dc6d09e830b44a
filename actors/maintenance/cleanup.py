"""Offers stranded events to their waits again, and deletes data past its retention."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from core.shared.config import Config
from core.shared.quotas import days_kept
from core.waits.messages import OfferReply, Reply, Verdict, WaitMessage
from core.waits.state import ParkedEvent
from storage.access import keys, usage
from storage.dispatch import jobs
from storage.events import events
from storage.kafka import dead_letters, named_topics
from storage.operations import warnings
from storage.postgres import audit_log
from storage.postgres.pool import Pool
from storage.waits import inbox, waits

log = structlog.get_logger("sweeper")

BATCH = 500
# The events that are offered at once have at most this many bytes together.
BATCH_BYTES = 8 * 1024 * 1024
# How many inbox rows one round reads. The inbox is normally smaller; if not, the next round
# continues from there.
SLICE = 50_000
# Warnings older than this that were not repeated are acknowledged automatically.
SEEN_AFTER = 8 * 3_600.0


@dataclass(eq=False, repr=False)
class Sweeper:
    """All steps may run twice or not at all; a later round makes up for it."""

    _config: Config
    _pool: Pool
    _send_many: Callable[[list[WaitMessage]], Awaitable[list[Reply]]]
    _now: Callable[[], float]
    _looked_at: int = 0

    async def reoffer(self) -> int:
        """Offer stranded events of the next slice to their waits; return how many were taken."""
        after = self._looked_at
        size, last = await inbox.slice_after(self._pool, after, SLICE)
        # Start from the beginning once the end is reached: the wait of an old event may have been
        # registered since.
        self._looked_at = last if size == SLICE else 0
        taken = 0
        while found := await inbox.stranded(self._pool, after, last, BATCH, BATCH_BYTES):
            taken += await self._offer(found)
            after = found[-1][0]
        return taken

    async def _offer(self, found: list[tuple[int, ParkedEvent]]) -> int:
        replies = await self._send_many([event.to_offer() for _, event in found])
        taken = [
            inbox_id
            for (inbox_id, _), reply in zip(found, replies, strict=True)
            if isinstance(reply, OfferReply)
            and reply.verdict in {Verdict.MATCHED, Verdict.DUPLICATE, Verdict.LATE}
        ]
        await inbox.delete_taken(self._pool, taken)
        log.info("sweeper.reoffered", found=len(found), taken=len(taken))
        return len(taken)

    async def forget(self) -> int:
        """Delete data past its retention; return how many rows."""
        pool, retention = self._pool, self._config.retention
        gone = await delete_all(lambda: inbox.expire(pool, BATCH))
        gone += await delete_all(lambda: waits.forget_ended(pool, retention, BATCH))
        gone += await delete_all(lambda: dead_letters.forget(pool, retention, BATCH))
        audited = self._config.audit_retention
        gone += await delete_all(lambda: audit_log.forget(pool, audited, BATCH))
        await waits.forget_specs(pool, retention)
        await named_topics.forget_topics(pool, retention)
        longest = max(days_kept(self._config.early_ttl, retention).values())
        await usage.forget(pool, longest + 1)
        return gone + await self._forget_deliveries()

    async def _forget_deliveries(self) -> int:
        """Delete ended jobs of each tenant by id, because job ids are ordered by time."""
        pool, before, gone = self._pool, self._now() - self._config.retention, 0
        for tenant in (await keys.tenants(pool)).values():
            gone += await delete_all(partial(jobs.forget, pool, tenant, before, BATCH))
        # An event is deleted once no job refers to it.
        gone += await delete_all(lambda: events.forget(pool, before, BATCH))
        await warnings.acknowledge_old(pool, SEEN_AFTER)
        await warnings.forget(pool, self._config.retention)
        return gone


async def delete_all(forget_some: Callable[[], Awaitable[int]]) -> int:
    """Delete in batches until none is left; return how many rows.

    Each batch is followed by a pause of the same length, so that deleting old data takes at most
    half of the time from current traffic.
    """
    gone = 0
    while True:
        began = time.monotonic()
        some = await forget_some()
        gone += some
        if some == 0:
            return gone
        await asyncio.sleep(time.monotonic() - began)
