"""Kafka ingest on a real broker and a real Postgres, without Ray: group members to command."""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from actors.kafka.counters import IngestCounters
from actors.kafka.reader import KafkaReader
from core.kafka.message import KafkaMessage
from core.shared.kafka_config import KafkaConfig
from core.waits.messages import Reply, WaitMessage
from services.kafka.ingest import Ingest, IngestDeps
from services.kafka.ingest_store import PostgresIngestStore
from services.waits.intake import CorrelationResolver, IdFieldRegistry
from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits import waits

TENANT = 1
SendMany = Callable[[list[WaitMessage]], Awaitable[list[Reply]]]


@dataclass
class Member:
    """One consumer at work."""

    reader: KafkaReader
    counters: IngestCounters
    pool: Pool
    task: asyncio.Task[None]

    @property
    def lag(self) -> int | None:
        """What its partitions still hold; None while that is not known."""
        lags = [row["lag"] for row in self.reader.partitions()]
        return None if not lags or None in lags else sum(lags)

    async def crash(self) -> None:
        """Stop in the middle: nothing is finished, nothing committed, nobody told."""
        self.task.cancel()
        for flight in self.reader._flights:
            flight.task.cancel()
        self.reader._flights.clear()
        self.reader._uncommitted.clear()
        await self.reader._consumer.stop()


@contextlib.asynccontextmanager
async def ingesting(
    bootstrap: str, dsn: str, send_many: SendMany, topics: Sequence[str], **kafka: object
) -> AsyncIterator[Member]:
    """A member that follows `topics` and gives what it reads to `send_many`."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="ingest", max_size=3))
    profiles = IdFieldRegistry(
        partial(keys.list_profiles, pool), partial(keys.create_profile, pool)
    )
    deps = IngestDeps(
        resolver=CorrelationResolver(profiles, partial(waits.load_waits, pool)),
        send_many=send_many,
        store=PostgresIngestStore(pool, 3600.0),
        now=time.time,
        chance=random.random,
        new_turn_id=lambda: uuid.uuid4().hex,
    )
    ingest, tally = Ingest(deps, 1_000_000), IngestCounters()

    async def handle(records: list[KafkaMessage]) -> None:
        tally.handled(await ingest.handle(TENANT, records))

    config = KafkaConfig(bootstrap=bootstrap, **kafka)  # type: ignore[arg-type]
    reader = KafkaReader(config, handle, tally, time.monotonic)
    await reader.start()
    reader.follow(topics)
    member = Member(reader, tally, pool, asyncio.create_task(reader.read_forever()))
    try:
        yield member
    finally:
        if not member.task.cancelled():
            member.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await member.task
            await reader.stop()
        pool.terminate()
