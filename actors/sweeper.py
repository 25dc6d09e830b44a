"""Quiet housekeeping: re-offers stranded events, forgets what is past its time, counts the rest."""

from collections.abc import Awaitable, Callable

import structlog

from core.config import Config
from core.messages import Judged, Message, Reply, Verdict
from storage import (
    access,
    dead_letters,
    dispatch_jobs,
    dispatch_warnings,
    events,
    inbox,
    topics,
    waits,
)
from storage.pool import Pool

log = structlog.get_logger("sweeper")

BATCH = 500
# A warning that nobody has looked at, and that has not come again since, is of no use any more.
SEEN_AFTER = 8 * 3_600.0


class Sweeper:
    """Everything here may run twice or not at all; a later round makes up for it."""

    def __init__(
        self,
        config: Config,
        pool: Pool,
        send_many: Callable[[list[Message]], Awaitable[list[Reply]]],
        now: Callable[[], float],
    ) -> None:
        self._config = config
        self._pool = pool
        self._send_many = send_many
        self._now = now

    async def reoffer(self) -> int:
        """Give stranded events to the wait that exists by now; how many were taken."""
        found = await inbox.stranded(self._pool, BATCH)
        if not found:
            return 0
        replies = await self._send_many([event.to_offer() for _, event in found])
        taken = [
            inbox_id
            for (inbox_id, _), reply in zip(found, replies, strict=True)
            if isinstance(reply, Judged)
            and reply.verdict in {Verdict.MATCHED, Verdict.DUPLICATE, Verdict.LATE}
        ]
        await inbox.settle(self._pool, taken)
        log.info("sweeper.reoffered", found=len(found), taken=len(taken))
        return len(taken)

    async def forget(self) -> int:
        """Remove events, waits, dead letters and deliveries past their time; how many rows."""
        gone = 0
        while expired := await inbox.expire(self._pool, BATCH):
            gone += expired
        while ended := await waits.forget_ended(self._pool, self._config.retention, BATCH):
            gone += ended
        while buried := await dead_letters.forget(self._pool, self._config.retention, BATCH):
            gone += buried
        await waits.forget_specs(self._pool, self._config.retention)
        await topics.forget_topics(self._pool, self._config.retention)
        return gone + await self._forget_deliveries()

    async def _forget_deliveries(self) -> int:
        """The same for jobs that have ended, tenant by tenant: their ids grow with time."""
        before, gone = self._now() - self._config.retention, 0
        for tenant in (await access.tenants(self._pool)).values():
            while ended := await dispatch_jobs.forget(self._pool, tenant, before, BATCH):
                gone += ended
        # Once no job brings it anywhere, an event goes as well.
        while old := await events.forget(self._pool, before, BATCH):
            gone += old
        await dispatch_warnings.acknowledge_old(self._pool, SEEN_AFTER)
        await dispatch_warnings.forget(self._pool, self._config.retention)
        return gone
