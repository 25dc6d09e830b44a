"""The Ray actor of the relay: one publisher for the whole outbox."""

import asyncio
from typing import Any

from actors.kafka.publisher import Publisher
from actors.runtime.actor import Actor
from core.shared.config import Config
from services.shared.progress import WorkProgress
from storage.kafka import outbox
from storage.kafka.outbox import Backlog
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Pool, PoolOptions, open_pool


class RelayActor(Actor):
    """Publishes the completion events of waits."""

    kind = "kafka-relay"

    def __init__(self, name: str, config: Config) -> None:
        if config.kafka is None:
            raise ValueError("Kafka is not configured")
        super().__init__(name, config)
        self._publisher = Publisher(config.kafka, 4 * config.max_body, config.public_url)
        self._pool: Pool | None = None
        self._counting = WorkProgress()
        self._backlog = Backlog(0, 0.0)
        self._measure("publish", lambda: self._publisher.progress.stalled_seconds)
        self._measure("count_backlog", lambda: self._counting.stalled_seconds)

    async def report(self) -> dict[str, Any]:
        """Count the outbox and describe this actor; the first report starts it."""
        self._begin()
        self._backlog = await self._count_backlog()
        return self._describe()

    def _stats(self) -> dict[str, Any]:
        counters, backlog = self._publisher.counters, self._backlog
        return {
            "connected": self._publisher.is_connected,
            "error": self._publisher.error,
            "published": counters.published,
            "failures": counters.failures,
            "vanished": counters.vanished,
            "held_topics": counters.held_topics,
            "refused": counters.refused,
            "backlog": backlog.rows,
            "oldest": backlog.oldest,
        }

    async def _count_backlog(self) -> Backlog:
        if self._pool is None:
            return Backlog(0, 0.0)
        self._counting.waits()
        try:
            async with asyncio.timeout(2.0):
                backlog = await outbox.backlog(self._pool)
        except SERVER_ERRORS:
            return Backlog(0, 0.0)
        self._counting.done()
        return backlog

    async def _start(self) -> None:
        options = PoolOptions(dsn=self._config.dsn, name=self._name, max_size=2)
        self._pool = await open_pool(options)
        self._spawn(self._publisher.run_forever(options, self._pool))
