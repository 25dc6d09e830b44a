"""Runs the relay: claims the outbox, reads its rows and owns the producer."""

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka.client import describe_error, discard, make_producer
from actors.kafka.relay import Relay, RelayCounters
from actors.kafka.topic_batch import PreparedEvent
from core.shared.kafka_config import KafkaConfig
from core.waits.completion_event import CompletionMessage, build_completion
from core.waits.state import Wait
from services.shared.progress import WorkProgress
from storage.kafka import outbox
from storage.kafka.outbox import OutgoingRow
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Connection, Pool, PoolOptions, open_connection
from storage.waits import waits

log = structlog.get_logger("relay")

# The results that are read at once have at most this many bytes together.
BATCH_BYTES = 8 * 1024 * 1024
_AWAY: tuple[type[Exception], ...] = (KafkaError, *SERVER_ERRORS)


class _Outbox:
    """The rows of the outbox, read by the connection that holds the claim on them."""

    def __init__(self, conn: Connection, pool: Pool, source: str) -> None:
        self._conn = conn
        self._pool = pool
        self._source = source

    async def upcoming(self, after: int, limit: int, without: Sequence[str]) -> list[OutgoingRow]:
        return await outbox.upcoming(self._conn, after, limit, without)

    async def completions(self, rows: Sequence[OutgoingRow]) -> list[PreparedEvent]:
        there = await waits.load_waits(self._pool, list({row.wait_key for row in rows}))
        rows = _first_of(rows, there)
        told = {row.wait_key for row in rows}
        counted = await waits.read_counted_of_all(
            self._pool, [wait for key, wait in there.items() if key in told]
        )
        made: list[PreparedEvent] = []
        for row in rows:
            wait, lines = there.get(row.wait_key), counted.get(row.wait_key, [])
            if wait is None:
                made.append(None)
                continue
            try:
                made.append(build_completion(wait, lines, row.topic, row.event_type, self._source))
            except Exception as error:  # one broken completion must not block the others
                made.append(error)
        return made

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        await outbox.confirm(self._conn, outbox_ids)


def _first_of(rows: Sequence[OutgoingRow], there: Mapping[bytes, Wait]) -> Sequence[OutgoingRow]:
    """Return the first rows, up to a number of bytes together but at least one."""
    size = 0
    for index, row in enumerate(rows):
        wait = there.get(row.wait_key)
        size += sum(mark.size for mark in wait.marks) if wait is not None else 0
        if index and size > BATCH_BYTES:
            return rows[:index]
    return rows


class Publisher:
    """Publishes while it holds the claim on the outbox, and waits for the claim otherwise."""

    def __init__(self, kafka: KafkaConfig, max_bytes: int, source: str) -> None:
        self._kafka = kafka
        self._max_bytes = max_bytes
        self._source = source
        self._producer: AIOKafkaProducer | None = None
        self._is_spent = False
        self._renewing = asyncio.Lock()
        self.counters = RelayCounters()
        self.progress = WorkProgress()
        self.error: str | None = None

    @property
    def is_connected(self) -> bool:
        """Return whether the producer has reached a broker."""
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
        if not await outbox.claim(conn):
            await asyncio.sleep(1.0)  # an earlier incarnation of this actor still holds the claim
            return
        self.error = None
        rows = _Outbox(conn, pool, self._source)
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
                producer = make_producer(self._kafka, self._max_bytes)
                try:
                    await producer.start()
                except BaseException:
                    await producer.stop()
                    raise
                self._producer, self._is_spent = producer, False
            return self._producer

    async def _hand_over(self, completion: CompletionMessage) -> Awaitable[object]:
        try:
            producer = await self._ready_producer()
        except (KafkaError, OSError) as error:
            self.error = describe_error(error)
            raise
        confirmed: asyncio.Future[object] = await producer.send(
            completion.topic,
            completion.value,
            key=completion.key.encode(),
            headers=list(completion.headers),
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
