"""A reader whose topics change while it is given its partitions."""

import asyncio
import time
from typing import Any

import pytest
from aiokafka import TopicPartition

from actors.kafka import reader
from actors.kafka.counters import IngestCounters
from actors.kafka.reader import KafkaReader
from core.kafka.message import KafkaMessage
from core.shared.kafka_config import KafkaConfig

PLACE = TopicPartition("orders", 0)


class Consumer:
    """Knows no position before the next assignment, as aiokafka after a new subscription."""

    def __init__(self, **_options: Any) -> None:
        self.subscribed: list[list[str]] = []
        self.asked = asyncio.Event()
        self.assigned_again = asyncio.Event()

    def subscribe(self, topics: list[str], listener: object) -> None:
        self.subscribed.append(topics)

    def assignment(self) -> set[TopicPartition]:
        return {PLACE}

    def pause(self, *_places: TopicPartition) -> None: ...

    async def position(self, _place: TopicPartition) -> int:
        self.asked.set()
        await self.assigned_again.wait()
        return 7


async def keep(_records: list[KafkaMessage]) -> None: ...


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> KafkaReader:
    monkeypatch.setattr(reader, "AIOKafkaConsumer", Consumer)
    return KafkaReader(KafkaConfig(bootstrap="b"), keep, IngestCounters(), time.monotonic)


async def test_new_topics_do_not_wait_for_the_positions_of_the_old_ones(made: KafkaReader) -> None:
    """Each would wait for the other: the positions for partitions, the partitions for those."""
    consumer: Any = made._consumer
    made.follow(["orders"])
    assigning = asyncio.create_task(made.on_partitions_assigned([PLACE]))
    await consumer.asked.wait()
    made.follow(["orders", "payments"])
    async with asyncio.timeout(5):
        await assigning
    assert consumer.subscribed == [["orders"], ["orders", "payments"]]
    consumer.assigned_again.set()
    await made.on_partitions_assigned([PLACE])
    assert made._next == {PLACE: 7}
