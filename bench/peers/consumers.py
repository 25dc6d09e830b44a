"""What others read from the same topic: to forget it, to store it barely, to store it plainly."""

import asyncio
import time
import uuid
from typing import Any

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from confluent_kafka import Consumer

from bench.harness import Measure
from bench.peers import rowlock
from bench.peers.bare import changes_of
from bench.stage import Stage
from bench.topic import Topic, event_for
from core.shared.address import Address
from core.waits.messages import Offer, WaitMessage
from core.waits.spec import Source
from core.waits.state import Wait
from storage.postgres.pool import PoolOptions, open_connection
from storage.waits.flush import FlushWriter, WaitChange


async def raw(stage: Stage, topic: Topic, count: int) -> Measure:
    """Read with aiokafka, decode, forget: what the client alone costs."""
    assigned = _Assigned()
    consumer = _consumer(topic, assigned)
    await consumer.start()
    try:
        await assigned.seen.wait()
        cpu, seen = stage.cpu_seconds(), 0
        while seen < count:
            for messages in (await consumer.getmany(timeout_ms=500, max_records=1_000)).values():
                for message in messages:
                    orjson.loads(message.value)
                seen += len(messages)
        return Measure(seen, time.perf_counter() - assigned.at, stage.cpu_seconds() - cpu)
    finally:
        await consumer.stop()


class _Assigned(ConsumerRebalanceListener):
    """Starts the clock when the partitions are ours: what is fetched ahead counts, too."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()
        self.at = 0.0

    def on_partitions_revoked(self, revoked: object) -> None:
        """None is, in such a short run."""

    def on_partitions_assigned(self, assigned: object) -> None:
        """The first fetch goes out after this."""
        self.at = time.perf_counter()
        self.seen.set()


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
    seen, started, cpu = 0, 0.0, 0.0

    def begin(_: Consumer, __: object) -> None:
        nonlocal started, cpu
        started, cpu = time.perf_counter(), stage.cpu_seconds()

    consumer.subscribe([topic.name], on_assign=begin)
    try:
        while seen < count:
            messages = consumer.consume(500, timeout=0.5)
            for message in messages:
                orjson.loads(message.value())
            seen += len(messages)
        return Measure(seen, time.perf_counter() - started, stage.cpu_seconds() - cpu)
    finally:
        consumer.close()


async def bare(stage: Stage, topic: Topic, registers: list[WaitMessage], batch: int) -> Measure:
    """Read with aiokafka, store the rows that were decided on before, in one process.

    The floor under anything that keeps these events: Postgres, its driver and Kafka's client.
    """
    dsn = await stage.database()
    waits: dict[bytes, Wait] = {}
    opened = changes_of(registers, waits)
    decided = {
        register.address.correlation_id: change
        for register, change in zip(registers, _received(registers, topic, waits), strict=True)
    }
    journal, assigned = FlushWriter("bare", 60.0), _Assigned()
    conn = await open_connection(PoolOptions(dsn=dsn, name="bare"))
    consumer = _consumer(topic, assigned)
    try:
        for start in range(0, len(opened), batch):
            await journal.flush(conn, opened[start : start + batch])
        await stage.checkpoint()
        await consumer.start()
        await assigned.seen.wait()
        cpu, seen = stage.cpu_seconds(), 0
        while seen < len(registers):
            found = await consumer.getmany(timeout_ms=500, max_records=batch)
            ids = [orjson.loads(m.value)["correlation_id"] for ms in found.values() for m in ms]
            kept = await journal.flush(conn, [decided[one] for one in ids]) if ids else set()
            assert len(kept) == len(ids), (len(kept), len(ids))
            seen += len(ids)
        return Measure(seen, time.perf_counter() - assigned.at, stage.cpu_seconds() - cpu)
    finally:
        await consumer.stop()
        await conn.close()
        await stage.drop(dsn)


def _received(
    registers: list[WaitMessage], topic: Topic, waits: dict[bytes, Wait]
) -> list[WaitChange]:
    offers: list[WaitMessage] = [
        Offer(
            address=register.address,
            turn_id="t",
            event_id=f"kafka/{topic.name}/{number}",
            source=Source.KAFKA,
            label=topic.name,
            payload=event_for(register.address),
        )
        for number, register in enumerate(registers)
    ]
    return changes_of(offers, waits)


async def plain(stage: Stage, topic: Topic, places: list[Address]) -> Measure:
    """What one would write: a transaction with a row lock for each event, then the next event."""
    dsn = await stage.empty_database()
    conn = await asyncpg.connect(dsn)
    assigned = _Assigned()
    consumer = _consumer(topic, assigned)
    try:
        await conn.execute(rowlock.SCHEMA)
        rows = [(p.scoped_id, p.execution_id, "n", p.correlation_id) for p in places]
        await conn.executemany(rowlock.REGISTER, rows)
        await consumer.start()
        await assigned.seen.wait()
        cpu, seen = stage.cpu_seconds(), 0
        async for message in consumer:
            await _handle(conn, orjson.loads(message.value))
            seen += 1
            if seen == len(places):
                break
        measure = Measure(seen, time.perf_counter() - assigned.at, stage.cpu_seconds() - cpu)
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


def _consumer(topic: Topic, listener: _Assigned) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=topic.bootstrap,
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic.name], listener=listener)
    return consumer
