"""What others read from the same topic: two consumers that do nothing, one that does it plainly."""

import asyncio
import time
import uuid
from typing import Any

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer

from bench.harness import Measure
from bench.peers import rowlock
from bench.stage import Stage
from bench.topic import Topic
from core.address import Address


async def raw(stage: Stage, topic: Topic, count: int) -> Measure:
    """Read with aiokafka, decode, forget: what the client alone costs."""
    consumer = _consumer(topic)
    await consumer.start()
    try:
        seen, started, cpu = 0, 0.0, 0.0
        while seen < count:
            for messages in (await consumer.getmany(timeout_ms=500, max_records=1_000)).values():
                if not started:
                    started, cpu = time.perf_counter(), stage.cpu_seconds()
                for message in messages:
                    orjson.loads(message.value)
                seen += len(messages)
        return Measure(seen, time.perf_counter() - started, stage.cpu_seconds() - cpu)
    finally:
        await consumer.stop()


async def confluent(stage: Stage, topic: Topic, count: int) -> Measure:
    """Read with librdkafka, decode, forget."""
    return await asyncio.to_thread(_confluent, stage, topic, count)


def _confluent(stage: Stage, topic: Topic, count: int) -> Measure:
    consumer = Consumer(
        {
            "bootstrap.servers": topic.bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic.name])
    try:
        seen, started, cpu = 0, 0.0, 0.0
        while seen < count:
            messages = consumer.consume(500, timeout=0.5)
            if messages and not started:
                started, cpu = time.perf_counter(), stage.cpu_seconds()
            for message in messages:
                orjson.loads(message.value())
            seen += len(messages)
        return Measure(seen, time.perf_counter() - started, stage.cpu_seconds() - cpu)
    finally:
        consumer.close()


async def plain(stage: Stage, topic: Topic, places: list[Address]) -> Measure:
    """What one would write: a transaction with a row lock for each event, then the next event."""
    dsn = await stage.empty_database()
    conn = await asyncpg.connect(dsn)
    consumer = _consumer(topic)
    try:
        await conn.execute(rowlock.SCHEMA)
        rows = [(p.scoped_id, p.execution_id, "n", p.correlation_id) for p in places]
        await conn.executemany(rowlock.REGISTER, rows)
        await consumer.start()
        seen, started, cpu = 0, 0.0, 0.0
        async for message in consumer:
            if not started:
                started, cpu = time.perf_counter(), stage.cpu_seconds()
            await _handle(conn, orjson.loads(message.value))
            seen += 1
            if seen == len(places):
                break
        measure = Measure(seen, time.perf_counter() - started, stage.cpu_seconds() - cpu)
        done = await conn.fetchval("select count(*) from wait_states where version = 2")
        assert done == len(places), done
    finally:
        await consumer.stop()
        await conn.close()
        await stage.drop(dsn)
    return measure


async def _handle(conn: "asyncpg.Connection", event: dict[str, Any]) -> None:
    ids = (event["execution_id"], event["correlation_id"])
    async with conn.transaction():
        if await conn.fetchval(rowlock.LOCK, *ids) is not None:
            statement = rowlock.RECEIVE.format(column="kafka_event_data")
            await conn.execute(statement, *ids, orjson.dumps(event).decode(), "kafka_event")


def _consumer(topic: Topic) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic.name,
        bootstrap_servers=topic.bootstrap,
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
