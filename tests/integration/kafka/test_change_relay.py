"""Record changes on their way to a real broker."""

import json
from collections.abc import AsyncIterator

import pytest

from actors.kafka.change_outbox import ChangeOutbox
from actors.kafka.relay_actor import Publisher
from core.records.validation import MASK
from storage.access import keys
from storage.postgres.pool import Pool, PoolOptions, open_pool
from tests.integration.kafka.test_kafka_ingest import until, value
from tests.support.kafka import Kafka
from tests.support.publishing import publishing
from tests.support.record_changes import RecordWriter

LEFT = "select count(*) from change_outbox"


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    opened = await open_pool(PoolOptions(dsn=database, name="test"))
    yield opened
    await opened.close()


async def until_left(dsn: str, rows: int) -> None:
    async def is_so() -> bool:
        return await value(dsn, LEFT) == rows

    await until(f"{rows} rows are left in the outbox", is_so)


async def writer_of(pool: Pool, topic: str) -> RecordWriter:
    orders = await RecordWriter.of(pool, await keys.create_tenant(pool, "acme"))
    orders.topic = topic
    return orders


async def test_a_change_is_published_with_its_key_and_content(
    kafka: Kafka, database: str, pool: Pool
) -> None:
    topic = await kafka.create_topic()
    orders = await writer_of(pool, topic)
    keys_written = [
        await orders.write("r1", status="open", card="4111"),
        await orders.write("r1", status="paid"),
        await orders.delete("r1"),
    ]
    async with publishing(kafka, database, ChangeOutbox):
        await until_left(database, 0)
    records = await kafka.consume(topic, 3)
    assert {record.key for record in records} == {b"acme:orders"}
    told = [json.loads(record.value) for record in records]
    assert [one["changeType"] for one in told] == ["CREATED", "UPDATED", "DELETED"]
    assert [one["eventId"] for one in told] == [key.change_id for key in keys_written]
    created, updated, deleted = told
    assert created["previousData"] is None
    assert updated["data"] == {"status": "paid", "card": MASK}
    assert updated["previousData"] == {"status": "open", "card": MASK}
    assert deleted["data"] == {"status": "paid", "card": MASK}
    assert updated["userId"] == "ada"
    headers = dict(records[1].headers)
    assert headers["ce_type"] == b"muster:records:orders:updated"
    assert headers["ce_id"] == updated["eventId"].encode()


async def test_the_changes_of_a_record_keep_their_order(
    kafka: Kafka, database: str, pool: Pool
) -> None:
    topic = await kafka.create_topic(partitions=3)
    orders = await writer_of(pool, topic)
    async with publishing(kafka, database, ChangeOutbox):
        for number in range(300):
            await orders.write(f"r{number % 7}", n=number)
        await until_left(database, 0)
    versions: dict[str, list[int]] = {}
    for record in await kafka.consume(topic, 300):
        told = json.loads(record.value)
        versions.setdefault(told["recordId"], []).append(told["version"])
    assert all(found == [*range(1, len(found) + 1)] for found in versions.values())
    assert len(versions) == 7


async def test_a_change_whose_row_is_gone_is_skipped(
    kafka: Kafka, database: str, pool: Pool
) -> None:
    topic = await kafka.create_topic()
    orders = await writer_of(pool, topic)
    await orders.write("r1")
    await pool.execute("delete from record_changes")
    await orders.write("r2")
    async with publishing(kafka, database, ChangeOutbox) as publisher:
        await until_left(database, 0)
        assert (publisher.counters.vanished, publisher.counters.published) == (1, 1)
    (record,) = await kafka.consume(topic, 1)
    assert json.loads(record.value)["recordId"] == "r2"


async def test_a_change_that_is_too_large_holds_up_its_record_alone(
    kafka: Kafka, database: str, pool: Pool
) -> None:
    if not kafka.is_real:
        pytest.skip("the mock has no bound of a topic")
    topic = await kafka.create_topic(partitions=1, max_message_bytes="20000")
    orders = await writer_of(pool, topic)
    await orders.write("large", text="x" * 30_000)
    for number in range(5):
        await orders.write(f"r{number}")
    async with publishing(kafka, database, ChangeOutbox) as publisher:
        await until_left(database, 1)
        assert publisher.counters.refused == 1
    records = await kafka.consume(topic, 5)
    assert [json.loads(one.value)["recordId"] for one in records] == [f"r{n}" for n in range(5)]


async def test_a_relay_that_stops_in_the_middle_loses_nothing(
    kafka: Kafka, database: str, pool: Pool
) -> None:
    topic = await kafka.create_topic(partitions=1)
    orders = await writer_of(pool, topic)
    for number in range(200):
        await orders.write(f"r{number}")
    for _ in range(3):
        async with publishing(kafka, database, ChangeOutbox) as publisher:

            async def has_begun(publisher: Publisher = publisher) -> bool:
                left: int = await value(database, LEFT)
                return publisher.counters.published > 0 or left == 0

            await until("it publishes", has_begun)
        for number in range(20):
            await orders.write(f"s{number}")
    async with publishing(kafka, database, ChangeOutbox):
        await until_left(database, 0)
    count = sum((await kafka.end_offsets(topic)).values())
    told = {json.loads(one.value)["eventId"] for one in await kafka.consume(topic, count)}
    assert len(told) == 260
