"""The Ray actor of the relay: one publisher for each outbox."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka.change_outbox import ChangeOutbox
from actors.kafka.client import describe_error, discard, start_producer
from actors.kafka.outbox import Outbox
from actors.kafka.relay import OutboxReader, Relay, RelayCounters
from actors.kafka.topic_batch import OutgoingMessage
from actors.runtime.actor import Actor
from core.shared.config import Config
from core.shared.kafka_config import KafkaConfig
from services.shared.progress import WorkProgress
from storage.kafka import outbox
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection, open_pool
from storage.records import change_outbox

log = structlog.get_logger("relay")

_AWAY: tuple[type[Exception], ...] = (KafkaError, *SERVER_ERRORS)
COUNT_INTERVAL = 1.0
COUNT_TIMEOUT = 2.0


class Publisher:
    """Publishes while it holds the claim on an outbox, and waits for the claim otherwise."""

    def __init__(
        self,
        kafka: KafkaConfig,
        max_bytes: int,
        source: str,
        outbox_type: type[Outbox] | type[ChangeOutbox] = Outbox,
    ) -> None:
        self._kafka = kafka
        self._max_bytes = max_bytes
        self._source = source
        self._outbox_type = outbox_type
        self._producer: AIOKafkaProducer | None = None
        self._is_spent = False
        self._renewing = asyncio.Lock()
        self.counters = RelayCounters()
        self.progress = WorkProgress()
        self.error: str | None = None

    @property
    def is_connected(self) -> bool:
        return self._producer is not None

    async def run_forever(self, options: PoolOptions, pool: Pool) -> None:
        """Connect, claim and publish; start again after Postgres or Kafka was away."""
        while True:
            try:
                await self._ready_producer()
                conn = await open_connection(options)
                try:
                    await self._publish(conn, pool)
                finally:
                    conn.terminate()
            except _AWAY as error:
                self.error = describe_error(error)
                log.warning("relay.away", error=self.error)
                await asyncio.sleep(1.0)

    async def close(self) -> None:
        if self._producer is not None:
            await discard(self._producer)

    async def _publish(self, conn: Connection, pool: Pool) -> None:
        if not await outbox.claim(conn, self._outbox_type.lock):
            await asyncio.sleep(1.0)  # an earlier incarnation of this actor still holds the claim
            return
        self.error = None
        rows: OutboxReader[Any] = self._outbox_type(conn, pool, self._source)
        relay = Relay(rows, self._hand_over, asyncio.sleep, time.monotonic, self.counters)
        relay.progress = self.progress
        await relay.run_forever()

    async def _ready_producer(self) -> AIOKafkaProducer:
        """Return the producer; replace it after a failure from which it cannot recover."""
        async with self._renewing:
            if self._producer is not None and self._is_spent:
                old, self._producer = self._producer, None
                await discard(old)
            if self._producer is None:
                self._producer = await start_producer(self._kafka, self._max_bytes)
                self._is_spent = False
            return self._producer

    async def _hand_over(self, message: OutgoingMessage) -> Awaitable[object]:
        try:
            producer = await self._ready_producer()
        except (KafkaError, OSError) as error:
            self.error = describe_error(error)
            raise
        confirmed: asyncio.Future[object] = await producer.send(
            message.topic,
            message.value,
            key=message.key.encode(),
            headers=list(message.headers),
        )
        confirmed.add_done_callback(self._check_confirmed)
        return confirmed

    def _check_confirmed(self, confirmed: asyncio.Future[object]) -> None:
        """Mark the producer for replacement after a failure.

        Brokers refuse an idempotent producer for good once it has skipped a sequence number.
        """
        error = None if confirmed.cancelled() else confirmed.exception()
        if confirmed.cancelled() or (isinstance(error, KafkaError) and not error.retriable):
            self._is_spent = True
        elif error is None:
            self.error = None


class RelayActor(Actor[None]):
    """Publishes the completion events of waits and the changes of records."""

    kind = "kafka-relay"

    def __init__(self, name: str, config: Config) -> None:
        if config.kafka is None:
            raise ValueError("Kafka is not configured")
        super().__init__(name, config)
        ends, changes = self._publishers = [
            Publisher(config.kafka, 4 * config.max_body, config.public_url, outbox_type)
            for outbox_type in (Outbox, ChangeOutbox)
        ]
        self._backlog, self._oldest = 0, 0.0
        self._measure("publish", lambda: ends.progress.stalled_seconds)
        self._measure("publish_changes", lambda: changes.progress.stalled_seconds)

    def _stats(self) -> dict[str, Any]:
        publishers = self._publishers
        return {
            "connected": all(one.is_connected for one in publishers),
            "error": next((one.error for one in publishers if one.error is not None), None),
            **asdict(sum((one.counters for one in publishers), RelayCounters())),
            "backlog": self._backlog,
            "oldest": self._oldest,
        }

    async def _start(self) -> None:
        options = PoolOptions(dsn=self._config.dsn, name=self._name, max_size=3)
        self._pool = await open_pool(options)
        for publisher in self._publishers:
            self._spawn(publisher.run_forever(options, self._pool))
        self._every(COUNT_INTERVAL, self._count_backlog, "count_backlog")

    async def _count_backlog(self) -> None:
        async with asyncio.timeout(COUNT_TIMEOUT):
            ends = await outbox.backlog(self._pool)
            changes = await change_outbox.message_backlog(self._pool)
        self._backlog = ends.rows + changes.rows
        self._oldest = max(ends.oldest, changes.oldest)
