"""Records of a real broker into a real Postgres: every one is accounted for, once."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable

import asyncpg

from core.shared.address import Address
from core.waits.messages import RegisterReply, WaitMessage
from storage.kafka import dead_letters
from storage.kafka.dead_letters import DeadLetterFilter
from storage.postgres.migrate import migrate
from tests.support.ingest import TENANT, ingesting
from tests.support.kafka import Kafka, MessageToProduce, OwnKafka, unique
from tests.support.postgres import BareServer
from tests.support.shards import address, api, register, running_shard

TOPIC_CONFIG = {"apiCall": {"url": "http://127.0.0.1:9/x"}, "timeout": 600}


async def until(what: str, check: Callable[[], Awaitable[bool]], within: float = 40.0) -> None:
    deadline = time.monotonic() + within
    while not await check():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        await asyncio.sleep(0.05)


async def value(dsn: str, query: str) -> int:
    conn = await asyncpg.connect(dsn)
    try:
        found: int = await conn.fetchval(query)
    finally:
        await conn.close()
    return found


def event(where: Address, **data: object) -> bytes:
    ids = {"correlation_id": where.correlation_id, "execution_id": where.execution_id}
    return json.dumps({**ids, **data}).encode()


async def test_events_of_two_topics_and_the_api_meet_in_any_order(
    kafka: Kafka, database: str
) -> None:
    orders, parcels = await kafka.create_topic(), await kafka.create_topic()
    config = {
        **TOPIC_CONFIG,
        "kafkaEvent": {"topic": orders, "filter": {"kind": "paid"}},
        "events": [{"name": "parcel", "topic": parcels}],
    }
    places = [address() for _ in range(40)]
    async with (
        running_shard(database) as shard,
        ingesting(
            kafka.bootstrap, database, shard.handle, [orders, parcels], group=unique("g")
        ) as member,
    ):
        registers: list[WaitMessage] = [register(where, config) for where in places]
        early, late = registers[:20], registers[20:]
        await shard.handle(late)
        await kafka.produce(orders, [event(p, kind="opened") for p in places])  # filtered out
        await asyncio.gather(
            kafka.produce(orders, [event(p, kind="paid") for p in places]),
            kafka.produce(parcels, [event(p, n=1) for p in places]),
            shard.handle([api(p) for p in places]),
        )
        replies = await shard.handle(early)  # these waits come after their events
        assert all(isinstance(reply, RegisterReply) for reply in replies)
        done = "select count(*) from execution_wait_states where status = 'completed'"

        async def all_done() -> bool:
            return await value(database, done) == len(places)

        await until("all completed", all_done)
        assert member.counters.records == 120
        assert member.counters.verdicts["rejected"] >= 20
        kinds = "select count(*) from wait_state_events where kind = 'received'"
        assert await value(database, kinds) == 3 * len(places)


async def test_poison_is_kept_and_the_partition_goes_on(kafka: Kafka, database: str) -> None:
    topic = await kafka.create_topic(partitions=1)
    where = address()
    messages = [
        MessageToProduce(value=b"{", headers=[("content-type", b"application/json")]),
        MessageToProduce(value=b"{}"),
        MessageToProduce(value=b"\x00\xff", key=b"k", headers=[("h", b"\xfe")]),
        MessageToProduce(value=event(where, n=1)),
    ]
    async with (
        running_shard(database) as shard,
        ingesting(kafka.bootstrap, database, shard.handle, [topic], group=unique("g")) as member,
    ):
        await shard.handle([register(where, {**TOPIC_CONFIG, "kafkaEvent": {"topic": topic}})])
        await kafka.produce(topic, messages)

        async def all_read() -> bool:
            return member.counters.verdicts["matched"] == 1

        await until("the good one is matched", all_read)
        (letter,) = (
            await dead_letters.page(member.pool, TENANT, DeadLetterFilter(), None, 10)
        ).items
        assert (letter.offset, "JSON" in letter.error) == (0, True)
        reasons = "select count(*) from event_inbox where reason = 'missing_id'"
        assert await value(database, reasons) == 2
        bytes_kept = "select count(*) from event_inbox where payload = '\\x00ff'::bytea"
        assert await value(database, bytes_kept) == 1


async def test_offsets_follow_the_rows_and_nothing_is_counted_twice(
    kafka: Kafka, database: str
) -> None:
    """A member that dies between the rows and the offsets leaves both to the next one."""
    topic, group = await kafka.create_topic(partitions=2), unique("g")
    places = [address() for _ in range(500)]
    config = {**TOPIC_CONFIG, "kafkaEvent": {"topic": topic}}
    async with running_shard(database) as shard:
        await shard.handle([register(where, config) for where in places])
        await kafka.produce(topic, [event(where) for where in places])
        started: list[int] = []

        async def halting(messages: list[WaitMessage]) -> list[object]:
            started.append(len(messages))
            replies = await shard.handle(messages)
            await asyncio.sleep(60)  # the rows are there; the answer never is
            return list(replies)

        async with ingesting(
            kafka.bootstrap,
            database,
            halting,
            [topic],
            group=group,
            batch=100,  # type: ignore[arg-type]
        ) as first:
            lines = "select count(*) from wait_state_events"

            async def some_rows() -> bool:
                return await value(database, lines) >= 100

            await until("rows are written", some_rows)
            await first.crash()
        assert await kafka.committed(group) == {}
        async with ingesting(
            kafka.bootstrap, database, shard.handle, [topic], group=group
        ) as second:

            async def drained() -> bool:
                return second.counters.records >= 500 and second.lag == 0

            await until("the second has read all", drained)
            assert second.counters.verdicts["duplicate"] >= 100
            assert await value(database, lines) == len(places)

            async def committed() -> bool:
                return sum((await kafka.committed(group)).values()) == 500

            await until("offsets are committed", committed)


async def test_three_members_share_and_a_lost_one_s_partitions_move(
    kafka: Kafka, database: str
) -> None:
    topic, group = await kafka.create_topic(partitions=6), unique("g")
    places = [address() for _ in range(600)]
    config = {**TOPIC_CONFIG, "kafkaEvent": {"topic": topic}}
    random.Random(4).shuffle(places)
    async with running_shard(database) as shard:
        await shard.handle([register(where, config) for where in places])
        options = {"group": group, "batch": 50}
        async with (
            ingesting(kafka.bootstrap, database, shard.handle, [topic], **options) as one,
            ingesting(kafka.bootstrap, database, shard.handle, [topic], **options) as two,
            ingesting(kafka.bootstrap, database, shard.handle, [topic], **options) as three,
        ):
            members = (one, two, three)

            async def shared() -> bool:
                return [len(m.reader.partitions()) for m in members] == [2, 2, 2]

            await until("each has two", shared)
            sending = asyncio.create_task(
                kafka.produce(topic, [event(where) for where in places * 2])
            )
            await three.crash()
            await sending
            lines = "select count(*) from wait_state_events where kind = 'received'"

            async def all_there() -> bool:
                return await value(database, lines) == len(places)

            await until("every wait has its event", all_there)

            async def moved() -> bool:
                return [len(m.reader.partitions()) for m in (one, two)] == [3, 3]

            await until("the others have its partitions", moved)


async def test_a_broker_that_restarts_and_a_postgres_that_restarts_lose_nothing(
    own_kafka: OwnKafka, bare_server: BareServer
) -> None:
    await migrate(bare_server.dsn)
    topic = await own_kafka.create_topic(partitions=2)
    places = [address() for _ in range(300)]
    config = {**TOPIC_CONFIG, "kafkaEvent": {"topic": topic}}
    async with (
        running_shard(bare_server.dsn) as shard,
        ingesting(
            own_kafka.bootstrap, bare_server.dsn, shard.handle, [topic], group=unique("g")
        ) as member,
    ):
        await shard.handle([register(where, config) for where in places])
        await own_kafka.produce(topic, [event(where) for where in places[:100]])
        await own_kafka.kill()
        await own_kafka.start()
        await own_kafka.produce(topic, [event(where) for where in places[100:200]])
        bare_server.stop("immediate")
        await own_kafka.produce(topic, [event(where) for where in places[200:]])
        bare_server.start()
        lines = "select count(*) from wait_state_events where kind = 'received'"

        async def all_there() -> bool:
            return await value(bare_server.dsn, lines) == len(places)

        await until("every event is there", all_there, within=60)
        assert member.counters.dead_letters == 0
