"""Quiet housekeeping: re-offers stranded events, forgets what is past its time, counts the rest."""

from collections.abc import Awaitable, Callable

import structlog

from core.config import Config
from core.messages import Judged, Message, Reply, Verdict
from storage import dead_letters, inbox, topics, waits
from storage.pool import Pool

log = structlog.get_logger("sweeper")

BATCH = 500


class Sweeper:
    """Everything here may run twice or not at all; a later round makes up for it."""

    def __init__(
        self,
        config: Config,
        pool: Pool,
        send_many: Callable[[list[Message]], Awaitable[list[Reply]]],
    ) -> None:
        self._config = config
        self._pool = pool
        self._send_many = send_many

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
        """Remove parked events, ended waits and dead letters past their time; how many rows."""
        gone = 0
        while expired := await inbox.expire(self._pool, BATCH):
            gone += expired
        while ended := await waits.forget_ended(self._pool, self._config.retention, BATCH):
            gone += ended
        while buried := await dead_letters.forget(self._pool, self._config.retention, BATCH):
            gone += buried
        await waits.forget_specs(self._pool, self._config.retention)
        await topics.forget_topics(self._pool, self._config.retention)
        return gone
