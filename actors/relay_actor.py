"""The Ray face of the relay: one publisher for the whole outbox."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka_client import make_producer, words_of
from actors.process import Process, settle_memory
from actors.relay import Relay
from core.completion import Completion, completion_of
from core.config import Config
from storage import outbox, waits
from storage.outbox import Backlog, OutgoingRow
from storage.pool import (
    CONNECTION_ERRORS,
    Connection,
    Pool,
    PoolOptions,
    open_connection,
    open_pool,
)

log = structlog.get_logger("relay")


class _Outbox:
    """The rows, read by the one connection that holds the claim on them."""

    def __init__(self, conn: Connection, pool: Pool, source: str) -> None:
        self._conn = conn
        self._pool = pool
        self._source = source

    async def upcoming(self, limit: int) -> list[OutgoingRow]:
        return await outbox.upcoming(self._conn, 0, limit)

    async def completions(self, rows: Sequence[OutgoingRow]) -> list[Completion | None]:
        loaded = await waits.load(self._pool, list({row.wait_key for row in rows}))
        there = [one.wait for one in loaded.values() if one.wait is not None]
        counted = await waits.read_counted_of_all(self._pool, there)
        completions: list[Completion | None] = []
        for row in rows:
            wait, lines = loaded[row.wait_key].wait, counted.get(row.wait_key, [])
            if wait is None:  # past retention before the broker was back
                completions.append(None)
                continue
            completions.append(completion_of(wait, lines, row.topic, row.event_type, self._source))
        return completions

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        await outbox.confirm(self._conn, outbox_ids)


class RelayActor:
    """Publishes while it holds the claim; without it, it waits for its turn."""

    def __init__(self, name: str, config: Config) -> None:
        if config.kafka is None:
            raise ValueError("Kafka is not configured")
        self._process = Process(name, config)
        self._config = config
        self._kafka = config.kafka
        self._pool: Pool | None = None
        self._producer: AIOKafkaProducer | None = None
        self._relay: Relay | None = None
        self._error: str | None = None
        self._starting: asyncio.Task[None] | None = None

    async def report(self) -> dict[str, Any]:
        """Where it runs and what it published. The first question starts it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._process.watch)
        tally = self._relay.tally if self._relay else None
        backlog = await self._backlog()
        stats = {
            "connected": self._producer is not None,
            "error": self._error,
            "published": tally.published if tally else 0,
            "failures": tally.failures if tally else 0,
            "backlog": backlog.rows,
            "oldest": backlog.oldest,
        }
        return {**self._process.describe(), "kind": "kafka-relay", "stats": stats}

    async def _backlog(self) -> Backlog:
        if self._pool is None:
            return Backlog(0, 0.0)
        try:
            async with asyncio.timeout(2.0):
                return await outbox.backlog(self._pool)
        except (*CONNECTION_ERRORS, TimeoutError):
            return Backlog(0, 0.0)

    async def _start(self) -> None:
        options = PoolOptions(dsn=self._config.dsn, name=self._process.name, max_size=2)
        self._pool = await open_pool(options)
        self._process.spawn(self._publish_forever(options, self._pool))
        settle_memory()

    async def _publish_forever(self, options: PoolOptions, pool: Pool) -> None:
        """Connect, claim, publish; begin again when Postgres or Kafka was away."""
        while True:
            try:
                await self._ensure_producer()
                conn = await open_connection(options)
                try:
                    await self._publish(conn, pool)
                finally:
                    conn.terminate()
            except (KafkaError, TimeoutError, *CONNECTION_ERRORS) as error:
                self._error = words_of(error)
                log.warning("relay.away", error=self._error)
                await asyncio.sleep(1.0)

    async def _ensure_producer(self) -> None:
        if self._producer is not None:
            return
        producer = make_producer(self._kafka, 4 * self._config.max_body)
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        self._producer = producer

    async def _publish(self, conn: Connection, pool: Pool) -> None:
        if not await outbox.claim(conn):
            await asyncio.sleep(1.0)  # an older incarnation of this actor still holds it
            return
        self._error = None
        rows = _Outbox(conn, pool, self._config.public_url)
        tally = self._relay.tally if self._relay else None
        self._relay = Relay(rows, self._hand_over, asyncio.sleep)
        if tally is not None:
            self._relay.tally = tally
        await self._relay.run_forever()

    async def _hand_over(self, completion: Completion) -> Awaitable[object]:
        if self._producer is None:
            raise TimeoutError("no producer")
        confirmed: Awaitable[object] = await self._producer.send(
            completion.topic,
            completion.value,
            key=completion.key.encode(),
            headers=list(completion.headers),
        )
        return confirmed
