"""A relay in a process of its own, to be killed: `python -m … DSN BOOTSTRAP`."""

import asyncio
import sys

from actors.kafka import relay
from actors.kafka.relay_actor import Publisher
from core.shared.kafka_config import KafkaConfig
from storage.postgres.pool import PoolOptions, open_pool


async def main(dsn: str, bootstrap: str) -> None:
    """Publish for ever, in small steps, so that there is a middle to be killed in."""
    relay.BATCH = 10
    options = PoolOptions(dsn=dsn, name="relay", max_size=2)
    publisher = Publisher(KafkaConfig(bootstrap=bootstrap), 1_000_000, "http://muster")
    await publisher.run_forever(options, await open_pool(options))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
