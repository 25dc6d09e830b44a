"""`muster kafka rewind` on a real broker: a group begins again at a time."""

import asyncio
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from cli.kafka.rewind import OffsetMove, plan_moves
from tests.support.kafka import Kafka, unique
from tests.support.product import run_cli

# 2026-03-01T12:00:00Z and the ten seconds after it.
NOON = 1_772_366_400_000


@pytest.fixture
async def topic(kafka: Kafka) -> str:
    """A topic with a record for each of ten seconds in each of two partitions."""
    if not kafka.is_real:
        pytest.skip("needs Apache Kafka")
    name = await kafka.create_topic(unique("orders"), partitions=2)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    for second in range(10):
        for partition in range(2):
            at = NOON + second * 1000
            await producer.send_and_wait(name, b"{}", partition=partition, timestamp_ms=at)
    await producer.stop()
    return name


async def committed(kafka: Kafka, topic: str, group: str, at: int) -> AIOKafkaConsumer:
    """Let a group have read so many of each partition; it is still there."""
    reader = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap, group_id=group, enable_auto_commit=False
    )
    await reader.start()
    places = [TopicPartition(topic, partition) for partition in range(2)]
    while reader.assignment() != set(places):
        await reader.getmany(timeout_ms=100)
    await reader.commit(dict.fromkeys(places, at))
    return reader


async def rewind(kafka: Kafka, group: str, *words: str, code: int = 0) -> dict[str, Any]:
    command = ("kafka", "rewind", "--bootstrap", kafka.bootstrap, *words, "--json")
    done = await asyncio.to_thread(run_cli, *command, env={"MUSTER_KAFKA_GROUP": group})
    assert done.returncode == code, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout) if code == 0 else {"error": done.stderr}
    return document


async def test_a_group_begins_again_at_a_time(kafka: Kafka, topic: str) -> None:
    group = unique("muster")
    reader = await committed(kafka, topic, group, 8)
    await reader.stop()
    words = ("--to", "2026-03-01T12:00:05Z")
    told = await rewind(kafka, group, *words)
    assert told["changed"] is False
    assert [(one["old"], one["new"], one["records"]) for one in told["partitions"]] == [
        (8, 5, 3),
        (8, 5, 3),
    ]
    assert await kafka.committed(group) == {(topic, 0): 8, (topic, 1): 8}
    told = await rewind(kafka, group, *words, "--yes")
    assert told["changed"] is True
    assert await kafka.committed(group) == {(topic, 0): 5, (topic, 1): 5}


async def test_it_never_goes_forward(kafka: Kafka, topic: str) -> None:
    """What nobody has stored yet must not be passed by."""
    group = unique("muster")
    await (await committed(kafka, topic, group, 3)).stop()
    await rewind(kafka, group, "--to", "2026-03-01T12:00:07Z", "--yes")
    assert await kafka.committed(group) == {(topic, 0): 3, (topic, 1): 3}


async def test_a_group_that_reads_is_left_alone(kafka: Kafka, topic: str) -> None:
    group = unique("muster")
    reader = await committed(kafka, topic, group, 8)
    try:
        words = ("--to", "2026-03-01T12:00:05Z")
        told = await rewind(kafka, group, *words, "--yes", code=1)
        assert "is active: stop Muster first" in " ".join(told["error"].split())
        assert (await rewind(kafka, group, *words))["changed"] is False  # looking is harmless
    finally:
        await reader.stop()
    assert await kafka.committed(group) == {(topic, 0): 8, (topic, 1): 8}


async def test_what_was_never_read_is_said(kafka: Kafka, topic: str) -> None:
    group = unique("muster")
    told = await rewind(kafka, group, "--to", "1h", code=1)
    assert "has read nothing yet" in " ".join(told["error"].split())
    await (await committed(kafka, topic, group, 3)).stop()
    told = await rewind(kafka, group, "--to", "1h", "--topic", "elsewhere", code=1)
    assert "has read nothing from topic elsewhere" in " ".join(told["error"].split())


def test_partitions_without_a_later_record_stay() -> None:
    a, b, c = (TopicPartition("t", number) for number in range(3))
    assert plan_moves({c: 7, a: 5, b: 9}, {a: None, b: 4, c: 8}) == [
        OffsetMove("t", 0, 5, 5),
        OffsetMove("t", 1, 9, 4),
        OffsetMove("t", 2, 7, 7),
    ]
