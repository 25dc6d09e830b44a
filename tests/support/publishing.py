"""A publisher of an outbox, as the relay runs it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from actors.kafka.relay_actor import Publisher
from core.shared.kafka_config import KafkaConfig
from storage.postgres.pool import PoolOptions, open_pool
from tests.support.kafka import Kafka


@contextlib.asynccontextmanager
async def publishing(kafka: Kafka, dsn: str, *outbox: Any) -> AsyncIterator[Publisher]:
    """Publish inside; without an outbox named, that of completion events."""
    options = PoolOptions(dsn=dsn, name="relay", max_size=2)
    pool = await open_pool(options)
    config = KafkaConfig(bootstrap=kafka.bootstrap)
    publisher = Publisher(config, 4_000_000, "http://muster", *outbox)
    task = asyncio.create_task(publisher.run_forever(options, pool))
    try:
        yield publisher
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await publisher.close()
        pool.terminate()
