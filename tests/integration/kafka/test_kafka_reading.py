"""What a reader hands on, on a real broker: everything that was committed there, and only that."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from actors.kafka import reader
from actors.kafka.counters import IngestCounters
from actors.kafka.reader import KafkaReader
from core.kafka.message import KafkaMessage
from core.shared.kafka_config import KafkaConfig
from tests.integration.kafka.test_kafka_ingest import until
from tests.support.kafka import Kafka, MessageToProduce, unique

Handle = Callable[[list[KafkaMessage]], Awaitable[None]]


class Taken(list[KafkaMessage]):
    """All that was handed on."""

    async def __call__(self, records: list[KafkaMessage]) -> None:
        self.extend(records)

    async def until(self, count: int) -> None:
        async def are_there() -> bool:
            return len(self) >= count

        await until(f"{count} records", are_there)


@contextlib.asynccontextmanager
async def reading(
    kafka: Kafka, topic: str, handle: Any, **config: Any
) -> AsyncIterator[tuple[KafkaReader, IngestCounters]]:
    """A member of a group that gives what it reads to `handle`."""
    options: dict[str, Any] = {"group": unique("g"), **config}
    tally = IngestCounters()
    settings = KafkaConfig(bootstrap=kafka.bootstrap, **options)
    reader = KafkaReader(settings, handle, tally, time.monotonic)
    await reader.start()
    reader.follow([topic])
    task = asyncio.create_task(reader.read_forever())
    try:
        yield reader, tally
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await reader.stop()


async def test_a_read_that_fails_takes_no_records_along(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka moves on in partitions that it has read when another one fails."""
    topic = await kafka.create_topic(partitions=2)
    taken = Taken()
    async with reading(kafka, topic, taken, batch=10) as (reader, _):
        getmany, failures = reader._consumer.getmany, 0

        async def fails_after_reading(*places: Any, **options: Any) -> Any:
            nonlocal failures
            found = await getmany(*places, **options)
            if found and failures < 3:
                failures += 1
                raise KafkaError("another partition is corrupt")
            return found

        monkeypatch.setattr(reader._consumer, "getmany", fails_after_reading)
        sent = [MessageToProduce(value=b"%d" % n, partition=n % 2) for n in range(40)]
        await kafka.produce(topic, sent)
        await taken.until(40)
    assert failures == 3
    assert sorted(record.value or b"" for record in taken) == sorted(s.value or b"" for s in sent)


async def test_headers_named_by_any_bytes_stop_nobody(kafka: Kafka) -> None:
    if not kafka.is_real:
        pytest.skip("the mock keeps no headers")
    topic = await kafka.create_topic(partitions=2)
    odd = MessageToProduce(value=b"odd", key=b"k", headers=[("\udcff\udcfe", b"1"), ("ok", None)])
    for _ in range(2):
        await kafka.produce_batch(
            topic,
            0,
            [MessageToProduce(value=b"before"), odd, odd, MessageToProduce(value=b"after")],
        )
    await kafka.produce(topic, [MessageToProduce(value=b"other", partition=1)] * 20)
    taken = Taken()
    async with reading(kafka, topic, taken):
        await taken.until(28)
    assert len({(record.partition, record.offset) for record in taken}) == len(taken) == 28
    counted = Counter(record.value for record in taken)
    assert counted == {b"before": 2, b"odd": 4, b"after": 2, b"other": 20}
    (headers,) = {record.headers for record in taken if record.value == b"odd"}
    assert headers == (("\ufffd\ufffd", b"1"), ("ok", None))


async def test_what_a_transaction_took_back_is_not_read_and_is_no_lag(kafka: Kafka) -> None:
    if not kafka.is_real:
        pytest.skip("needs transactions")
    topic, group, taken = await kafka.create_topic(partitions=1), unique("g"), Taken()
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=unique("t"))
    await producer.start()
    try:
        for number, commits in enumerate([False, True, False]):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
    finally:
        await producer.stop()
    async with reading(kafka, topic, taken, group=group) as (reader, _):

        async def all_is_read() -> bool:
            return [row["lag"] for row in reader.partitions()] == [0]

        await until("nothing is left to read", all_is_read)

        async def all_is_committed() -> bool:
            return (await kafka.committed(group)).get((topic, 0)) == 6  # three, and their markers

        await until("the group is behind it", all_is_committed)
    assert [record.value for record in taken] == [b"1"]


async def test_a_rebalance_in_a_pause_opens_no_floodgate(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kafka.is_real:
        pytest.skip("needs a second member")
    monkeypatch.setattr(reader, "LET_GO_WITHIN", 0.2)
    monkeypatch.setattr(reader, "PAUSE_AFTER", 0.3)
    topic, group = await kafka.create_topic(partitions=4), unique("g")
    await kafka.produce(topic, [MessageToProduce(value=b"x", partition=n % 4) for n in range(400)])
    under_way = peak = 0

    async def never_done(records: list[KafkaMessage]) -> None:
        nonlocal under_way, peak
        under_way += 1
        peak = max(peak, under_way)
        try:
            await asyncio.Event().wait()
        finally:
            under_way -= 1

    options = {"group": group, "batch": 5}
    async with reading(kafka, topic, never_done, **options) as (one, tally):

        async def paused_once() -> bool:
            return tally.pauses == 1

        await until("the first is paused", paused_once)
        async with reading(kafka, topic, Taken(), **options) as (two, _):

            async def shared() -> bool:
                return len(one.partitions()) == len(two.partitions()) == 2

            await until("they share the partitions", shared)

            async def paused_again() -> bool:
                return tally.pauses >= 2

            await until("the first is paused again", paused_again)
            assert one.under_way <= reader.MAX_BATCHES_UNDER_WAY + 1
    assert peak <= reader.MAX_BATCHES_UNDER_WAY + 1


async def test_what_could_not_be_committed_in_time_is_left_to_the_next_owner() -> None:
    """Committed later, after the partition came back, it would undo what others have done."""
    reader = KafkaReader(KafkaConfig(bootstrap="b:1"), Taken(), IngestCounters(), time.monotonic)
    place = TopicPartition("t", 0)
    reader._uncommitted[place] = 5
    try:
        await reader.on_partitions_revoked([place])
        assert reader._uncommitted == {}
    finally:
        await reader.stop()


async def test_a_batch_that_is_not_stored_is_measured_until_it_is(kafka: Kafka) -> None:
    topic = await kafka.create_topic(partitions=1)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def handle(_: list[KafkaMessage]) -> None:
        begun.set()
        await goes_on.wait()

    async with reading(kafka, topic, handle) as (reader, tally):
        assert reader.stored_ago == 0.0
        await kafka.produce(topic, [b"{}"])
        async with asyncio.timeout(30):
            await begun.wait()
        first = reader.stored_ago
        await asyncio.sleep(0.05)
        assert reader.stored_ago > first
        goes_on.set()

        async def is_committed() -> bool:
            return tally.commits > 0

        await until("it is committed", is_committed)
        assert reader.stored_ago == 0.0
        assert reader.committing.stalled_seconds == 0.0


async def test_a_topic_that_is_held_waits_in_kafka_while_others_go_on(kafka: Kafka) -> None:
    """One tenant's quota is used up: the topics of others are none of its business."""
    held, other = await kafka.create_topic(), await kafka.create_topic()
    taken = Taken()
    async with reading(kafka, held, taken) as (reader, _):
        reader.follow([held, other])
        await kafka.produce(held, [MessageToProduce(value=b"before")])
        await kafka.produce(other, [MessageToProduce(value=b"before")])
        await taken.until(2)
        reader.pause_topics([held])
        await kafka.produce(held, [MessageToProduce(value=b"%d" % n) for n in range(5)])
        await kafka.produce(other, [MessageToProduce(value=b"%d" % n) for n in range(20)])
        await taken.until(22)
        # What was fetched before it was held may come; nothing after that does.
        assert {record.topic for record in taken[2:]} == {other}
        assert {row["topic"] for row in reader.partitions() if row["held"]} == {held}
        reader.pause_topics([])
        await taken.until(27)
    assert Counter(record.topic for record in taken) == {held: 6, other: 21}
