"""The Ray face of the relay: one publisher for the whole outbox."""

import asyncio
from typing import Any

from actors.kafka.publisher import Publisher
from actors.runtime.actor import Process
from core.shared.config import Config
from services.shared.process import freeze_gc
from services.shared.progress import WorkProgress
from storage.kafka import outbox
from storage.kafka.outbox import Backlog
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Pool, PoolOptions, open_pool


class RelayActor:
    """Publishes what waits emit when they end."""

    def __init__(self, name: str, config: Config) -> None:
        if config.kafka is None:
            raise ValueError("Kafka is not configured")
        self._process = Process(name, config)
        self._config = config
        self._publisher = Publisher(config.kafka, 4 * config.max_body, config.public_url)
        self._pool: Pool | None = None
        self._counting = WorkProgress()
        self._process.measure("publish", lambda: self._publisher.progress.stalled_seconds)
        self._process.measure("count_backlog", lambda: self._counting.stalled_seconds)
        self._starting: asyncio.Task[None] | None = None

    async def report(self) -> dict[str, Any]:
        """Where it runs and what it published. The first question starts it."""
        if self._starting is None:
            self._starting = self._process.launch(self._start())
        counters = self._publisher.counters
        backlog = await self._backlog()
        stats = {
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
        return {**self._process.describe(), "kind": "kafka-relay", "stats": stats}

    async def _backlog(self) -> Backlog:
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
        options = PoolOptions(dsn=self._config.dsn, name=self._process.name, max_size=2)
        self._pool = await open_pool(options)
        self._process.spawn(self._publisher.run_forever(options, self._pool))
        freeze_gc()
