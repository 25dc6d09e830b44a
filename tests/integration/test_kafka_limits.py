"""Too large, too fast, not readable: what ingest does at its bounds, on a real broker."""

import asyncio

from actors.dead_letter_topic import DeadLetterTopic
from core.kafka_config import KafkaConfig
from core.messages import Message, Reply
from core.record import Record
from storage import dead_letters
from storage.dead_letters import LetterFilter
from tests.integration.test_kafka_ingest import TOPIC_CONFIG, event, until, value
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
            return member.tally.verdicts["matched"] == 1 and member.tally.dead_letters == 1

        await until("one is buried, the other matched", both_are_done)
        (letter,) = await dead_letters.page(member.pool, TENANT, LetterFilter(), None, 10)
        assert letter.offset == 0
        assert "MUSTER_MAX_BODY" in letter.error


async def test_while_shards_are_behind_nothing_more_is_read_and_the_member_stays(
    kafka: Kafka, database: str
) -> None:
    topic, group = await kafka.create_topic(partitions=2), unique("g")
    places = [address() for _ in range(400)]
    released, held = asyncio.Event(), []
    async with running_shard(database) as shard:

        async def slowly(messages: list[Message]) -> list[Reply]:
            held.append(len(messages))
            await released.wait()
            return await shard.handle(messages)

        await kafka.produce(topic, [event(where) for where in places])
        async with ingesting(
            kafka.bootstrap, database, slowly, [topic], group=group, batch=50
        ) as member:

            async def paused() -> bool:
                return member.tally.pauses == 1

            await until("reading is paused", paused)
            await asyncio.sleep(12)  # longer than the group waits for a member that is silent
            assert len(held) == 2  # batches under way; the others stay in Kafka
            rebalances = member.tally.rebalances
            released.set()
            kept = "select count(*) from event_inbox"

            async def all_there() -> bool:
                return await value(database, kept) == len(places)

            await until("all are stored", all_there)
            assert member.tally.rebalances == rebalances
            assert member.tally.records == len(places)


async def test_a_copy_of_a_dead_letter_says_where_it_was_and_why(kafka: Kafka) -> None:
    dead = await kafka.create_topic(partitions=1)
    config = KafkaConfig(bootstrap=kafka.bootstrap, dead_letter_topic=dead)
    record = Record(
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
