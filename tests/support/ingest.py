"""Kafka ingest on a real broker and a real Postgres, without Ray: group members to command."""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from actors.kafka.counters import KafkaTally
from actors.kafka.reader import KafkaReader
from core.kafka.message import Record
from core.shared.kafka_config import KafkaConfig
from core.waits.messages import Message, Reply
from core.waits.state import Parked
from services.kafka.ingest import Ingest, Means
from services.waits.correlation_resolver import Addressing
from services.waits.id_fields import Profiles
from storage.access import keys
from storage.kafka import dead_letters
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.postgres.probe import probe_waits
from storage.waits import flush, waits

TENANT = 1
SendMany = Callable[[list[Message]], Awaitable[list[Reply]]]


class Store:
    """What ingest writes itself."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def park(self, events: Sequence[Parked]) -> None:
        async with self._pool.acquire() as conn:
            await flush.park(conn, [(b"", event) for event in events], 3600.0)

    async def probe(self) -> None:
        async with self._pool.acquire() as conn:
            await probe_waits(conn)

    async def bury(self, tenant: int, failed: Sequence[tuple[Record, str]]) -> None:
        await dead_letters.bury(self._pool, tenant, failed)


@dataclass
class Member:
    """One consumer at work."""

    reader: KafkaReader
    tally: KafkaTally
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
    profiles = Profiles(partial(keys.list_profiles, pool), partial(keys.create_profile, pool))
    means = Means(
        addressing=Addressing(profiles, partial(waits.load, pool)),
        send_many=send_many,
        store=Store(pool),
        now=time.time,
        chance=random.random,
        mint=lambda: uuid.uuid4().hex,
    )
    ingest, tally = Ingest(means, 1_000_000), KafkaTally()

    async def handle(records: list[Record]) -> None:
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
