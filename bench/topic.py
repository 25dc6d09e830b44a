"""A broker for benchmarks, and topics that are full before the clock starts."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench.harness import err
from bench.stage import Stage
from core.shared.address import Address
from host.kafka.apache import ApacheOptions
from host.kafka.broker import Broker, stop
from host.kafka.selection import start_embedded

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and where it is."""

    bootstrap: str
    name: str


@asynccontextmanager
async def broker_of(stage: Stage) -> AsyncIterator[Broker]:
    """A broker of this run's own."""
    folder = stage.places.data_dir / "kafka"
    start = partial(start_embedded, folder, ApacheOptions(), jars_folder=None, say=err.print)
    broker = await asyncio.to_thread(start)
    err.print(f"  {broker.describe()}")
    try:
        yield broker
    finally:
        await asyncio.to_thread(stop, broker)


async def new_topic(bootstrap: str) -> Topic:
    """An empty topic."""
    topic = Topic(bootstrap, f"bench-{uuid.uuid4().hex[:12]}")
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic.name, PARTITIONS, 1)])
    finally:
        await admin.close()
    return topic


async def fill_topic(topic: Topic, places: list[Address]) -> None:
    """One event for each correlation."""
    producer = AIOKafkaProducer(bootstrap_servers=topic.bootstrap, linger_ms=20)
    await producer.start()
    try:
        for place in places:
            await producer.send(topic.name, event_for(place), key=place.correlation_id.encode())
        await producer.flush()
    finally:
        await producer.stop()


def event_for(place: Address) -> bytes:
    """An event as a service writes it: both ids, and some data."""
    return json.dumps(
        {
            "correlation_id": place.correlation_id,
            "execution_id": place.execution_id,
            "event_type": "action.completed",
            "parcels": 2,
            "carrier": "north",
            "weight": 12.5,
        }
    ).encode()
