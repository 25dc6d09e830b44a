"""Too large, too fast, not readable: what ingest does at its bounds, on a real broker."""

import asyncio

import pytest

from actors.kafka import ingest_actor
from actors.kafka.ingest_actor import DeadLetterTopic
from core.kafka.message import KafkaMessage
from core.shared.kafka_config import KafkaConfig
from core.waits.messages import Reply, WaitMessage
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetterFilter
from tests.integration.kafka.test_kafka_ingest import TOPIC_CONFIG, event, until, value
from tests.support.ingest import TENANT, ingesting
from tests.support.kafka import Kafka, unique
from tests.support.shards import address, register, running_shard


async def test_a_record_over_the_bound_is_a_dead_letter_and_the_next_one_is_matched(
    kafka: Kafka, database: str
) -> None:
    topic = await kafka.create_topic(partitions=1, max_message_bytes="3000000")
    where = address()
    async with (
        running_shard(database) as shard,
        ingesting(kafka.bootstrap, database, shard.handle, [topic], group=unique("g")) as member,
    ):
        await shard.handle([register(where, {**TOPIC_CONFIG, "kafkaEvent": {"topic": topic}})])
        large = event(where, text="x" * 2_000_000)
        await kafka.produce(topic, [large, event(where, n=1)], max_request_size=4_000_000)

        async def both_are_done() -> bool:
            return member.counters.verdicts["matched"] == 1 and member.counters.dead_letters == 1

        await until("one is buried, the other matched", both_are_done)
        (letter,) = (
            await dead_letters.page(member.pool, TENANT, DeadLetterFilter(), None, 10)
        ).items
        assert letter.offset == 0
        assert "MUSTER_MAX_BODY" in letter.error


async def test_while_shards_are_behind_nothing_more_is_read_and_the_member_stays(
    kafka: Kafka, database: str
) -> None:
    topic, group = await kafka.create_topic(partitions=2), unique("g")
    places = [address() for _ in range(400)]
    released, held = asyncio.Event(), []
    async with running_shard(database) as shard:

        async def slowly(messages: list[WaitMessage]) -> list[Reply]:
            held.append(len(messages))
            await released.wait()
            return await shard.handle(messages)

        await kafka.produce(topic, [event(where) for where in places])
        async with ingesting(
            kafka.bootstrap, database, slowly, [topic], group=group, batch=50
        ) as member:

            async def paused() -> bool:
                return member.counters.pauses == 1

            await until("reading is paused", paused)
            await asyncio.sleep(12)  # longer than the group waits for a member that is silent
            assert len(held) == 2  # batches under way; the others stay in Kafka
            rebalances = member.counters.rebalances
            released.set()
            kept = "select count(*) from event_inbox"

            async def all_there() -> bool:
                return await value(database, kept) == len(places)

            await until("all are stored", all_there)
            assert member.counters.rebalances == rebalances
            assert member.counters.records == len(places)


async def test_a_copy_of_a_dead_letter_says_where_it_was_and_why(kafka: Kafka) -> None:
    dead = await kafka.create_topic(partitions=1)
    config = KafkaConfig(bootstrap=kafka.bootstrap, dead_letter_topic=dead)
    record = KafkaMessage(
        topic="orders", partition=2, offset=71, value=b"\x00{", key=b"k", headers=(("h", b"1"),)
    )
    copies = DeadLetterTopic(config, 1_000_000)
    try:
        await copies.publish([(record, "not JSON")])
    finally:
        await copies.close()
    (copy,) = await kafka.consume(dead, 1)
    assert (copy.value, copy.key) == (b"\x00{", b"k")
    assert dict(copy.headers) == {
        "h": b"1",
        "muster-error": b"not JSON",
        "muster-topic": b"orders",
        "muster-partition": b"2",
        "muster-offset": b"71",
    }


async def test_a_tombstone_without_a_key_is_copied_and_so_is_the_next(kafka: Kafka) -> None:
    dead = await kafka.create_topic(partitions=1)
    copies = DeadLetterTopic(
        KafkaConfig(bootstrap=kafka.bootstrap, dead_letter_topic=dead), 1_000_000
    )
    places = [KafkaMessage(topic="orders", partition=0, offset=n, value=None) for n in (1, 2)]
    try:
        await copies.publish([(record, "no CloudEvent \udcff") for record in places])
    finally:
        await copies.close()
    found = await kafka.consume(dead, 2)
    assert [(copy.value, dict(copy.headers)["muster-offset"]) for copy in found] == [
        (b"", b"1"),
        (b"", b"2"),
    ]


async def test_a_copy_that_nobody_takes_holds_up_no_longer_than_its_bound(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kafka.is_real:
        pytest.skip("the mock makes every topic that is named")
    monkeypatch.setattr(ingest_actor, "COPY_WITHIN", 0.5)
    config = KafkaConfig(bootstrap=kafka.bootstrap, dead_letter_topic=unique("missing"))
    copies = DeadLetterTopic(config, 1_000_000)
    record = KafkaMessage(topic="orders", partition=0, offset=1, value=b"x")
    try:
        async with asyncio.timeout(5):  # the client alone would wait ten seconds for each
            await copies.publish([(record, "not JSON")] * 3)
    finally:
        await copies.close()
