"""Ends of waits on their way to a real broker: whatever is away or dies, each of them arrives."""

import asyncio
import sys
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from actors.waits.shard import Shard
from core.shared.address import Address
from core.waits.spec import decode_spec, encode_spec
from tests.integration.kafka.test_kafka_ingest import until, value
from tests.support.kafka import Kafka, OwnKafka, unique
from tests.support.publishing import publishing
from tests.support.shards import address, api, register, running_shard

CONFIG = {"apiCall": {"url": "http://127.0.0.1:9/x"}, "timeout": 600}
LEFT = "select count(*) from outbox"


async def end_waits(shard: Shard, topic: str, count: int, payload: bytes = b"{}") -> list[Address]:
    """Register and end waits that tell `topic` of it."""
    places = [address() for _ in range(count)]
    for where in places:
        message = register(where, CONFIG)
        spec = replace(decode_spec(message.spec), publish=topic)
        await shard.handle([replace(message, spec=encode_spec(spec)), api(where, payload)])
    return places


async def until_left(dsn: str, rows: int) -> None:
    async def is_so() -> bool:
        return await value(dsn, LEFT) == rows

    await until(f"{rows} rows are left in the outbox", is_so)


async def told(kafka: Kafka, topic: str, places: Sequence[Address]) -> int:
    """How many records tell of these ends; each is told at least once, and nothing else is."""
    count = sum((await kafka.end_offsets(topic)).values())
    records = await kafka.consume(topic, count)
    assert {record.key.decode() for record in records} == {where.scoped_id for where in places}
    ids = {dict(record.headers)["ce_id"] for record in records}
    assert len(ids) == len(places)  # sent again it has the same id
    return count


async def test_a_relay_killed_in_the_middle_loses_nothing(kafka: Kafka, database: str) -> None:
    topic = await kafka.create_topic()
    async with running_shard(database) as shard:
        places = await end_waits(shard, topic, 600)
    first = await _relay_process(kafka, database)
    try:

        async def has_begun() -> bool:
            return await value(database, LEFT) < len(places)

        await until("it publishes", has_begun)
    finally:
        first.kill()
        await first.wait()
    assert 0 < await value(database, LEFT) < len(places)
    second = await _relay_process(kafka, database)
    try:
        await until_left(database, 0)
    finally:
        second.kill()
        await second.wait()
    assert await told(kafka, topic, places) >= len(places)


async def _relay_process(kafka: Kafka, dsn: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.relay_host", dsn, kafka.bootstrap
    )


async def test_a_topic_that_is_missing_holds_up_nobody_and_gets_all_when_it_is_there(
    kafka: Kafka, database: str
) -> None:
    if not kafka.is_real:
        pytest.skip("the mock makes every topic that is named")
    there, missing = await kafka.create_topic(), unique("missing")
    async with running_shard(database) as shard, publishing(kafka, database) as publisher:
        late = await end_waits(shard, missing, 5)
        good = await end_waits(shard, there, 20)
        await until_left(database, len(late))
        assert await told(kafka, there, good) == len(good)  # each of them once

        async def is_held() -> bool:
            return publisher.counters.held_topics == 1

        await until("the topic is held", is_held)
        await kafka.create_topic(missing)
        await until_left(database, 0)
        await told(kafka, missing, late)
        assert publisher.counters.held_topics == 0


async def test_an_event_that_is_too_large_stays_behind_alone(kafka: Kafka, database: str) -> None:
    if not kafka.is_real:
        pytest.skip("the mock has no bound of a topic")
    topic = await kafka.create_topic(partitions=1, max_message_bytes="20000")
    async with running_shard(database) as shard:
        before = await end_waits(shard, topic, 3)
        await end_waits(shard, topic, 1, b'"%b"' % (b"x" * 30_000))
        after = await end_waits(shard, topic, 3)
        async with publishing(kafka, database) as publisher:
            await until_left(database, 1)
            more = await end_waits(shard, topic, 3)
            await until_left(database, 1)
            assert publisher.counters.refused == 1
    await told(kafka, topic, [*before, *after, *more])


async def test_what_ends_while_the_broker_is_away_is_told_when_it_is_back(
    own_kafka: OwnKafka, database: str
) -> None:
    topic = await own_kafka.create_topic()
    async with running_shard(database) as shard, publishing(own_kafka, database):
        first = await end_waits(shard, topic, 3)
        await until_left(database, 0)
        await own_kafka.kill()
        second = await end_waits(shard, topic, 30)
        assert await value(database, LEFT) == len(second)
        await own_kafka.start()
        await until_left(database, 0)
    await told(own_kafka, topic, [*first, *second])


async def test_large_results_are_told_in_parts(
    kafka: Kafka, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many ends are read at once as have so many bytes together."""
    monkeypatch.setattr("actors.kafka.outbox.BATCH_BYTES", 250_000)
    topic = await kafka.create_topic()
    async with running_shard(database) as shard:
        places = await end_waits(shard, topic, 6, b'"' + b"x" * 100_000 + b'"')
    async with publishing(kafka, database) as publisher:
        await until_left(database, 0)
    assert publisher.counters.batches == 3
    assert await told(kafka, topic, places) == 6
