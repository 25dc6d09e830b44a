"""A topic that is full, into rows: how fast, and how long from produced to completed."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg
from aiokafka import AIOKafkaProducer

from actors.client import ActorClient
from bench.actors import actors
from bench.aggregate import SHARDS
from bench.harness import Measure, Result, duel, err, spread
from bench.peers import consumers
from bench.stage import Stage
from bench.stats import percentile, poisson_schedule
from bench.topic import Topic, broker_of, event_for, fill_topic, new_topic
from core.shared.address import Address
from core.shared.kafka_config import KafkaConfig
from core.waits.config import WaitConfig
from core.waits.messages import Register, WaitMessage
from core.waits.spec import WaitSpec, encode_spec

BATCH = 500
Peer = Callable[[Stage, Topic, int], Awaitable[Measure]]
GOALS = {"events / raw aiokafka": "≥ 0.35", "events / plain consumer": "≥ 10"}


async def run(stage: Stage) -> Result:
    """Ours against consumers that store nothing, and one that stores as one would by hand."""
    size, pairs = (15_000, 1) if stage.quick else (60_000, 5)
    result = Result("kafka", goals=GOALS)
    async with broker_of(stage) as broker:
        ours = partial(measure_ours, stage, broker.bootstrap, size)
        peers = {
            "raw aiokafka": partial(_read, stage, broker.bootstrap, size, consumers.raw),
            "confluent": partial(_read, stage, broker.bootstrap, size, consumers.confluent),
            "bare writer": partial(_bare, stage, broker.bootstrap, size),
            "plain consumer": partial(_plain, stage, broker.bootstrap, size // 10),
        }
        all_of_ours: list[Measure] = []
        for name, peer in peers.items():
            found = await duel(ours, peer, pairs)
            _note(result, name, found)
            all_of_ours += [mine for mine, _ in found]
        result.ours["events_per_second"] = spread([one.rate for one in all_of_ours])
        result.ours["cpu_us_per_event"] = spread([one.cpu_microseconds for one in all_of_ours])
        rate = result.ours["events_per_second"]["median"] / 2
        result.ours |= await _latency(stage, broker.bootstrap, rate, 5 if stage.quick else 20)
    return result


def _note(result: Result, name: str, found: list[tuple[Measure, Measure]]) -> None:
    """Each peer beside what ours reached in the same minutes."""
    result.peers[name] = {
        "events_per_second": spread([other.rate for _, other in found]),
        "ours_meanwhile": spread([mine.rate for mine, _ in found]),
    }
    result.ratios[f"events / {name}"] = spread([one.rate / other.rate for one, other in found])


async def measure_ours(stage: Stage, bootstrap: str, size: int) -> Measure:
    """From the moment that partitions are ours, as for the peers, to the last event stored."""
    topic, places = await _full(bootstrap, size)
    dsn = await stage.database()
    try:
        async with actors(dsn, shards=SHARDS, kafka=_config(topic), hot_limit=2 * size) as gateway:
            await _register(gateway, topic, places)
            await stage.checkpoint()
            cpu = stage.cpu_seconds()
            await _follow(gateway, topic)
            began = await _until_all(gateway, size)
            cpu = stage.cpu_seconds() - cpu
            seconds = await _check(dsn, size) - began
    finally:
        await stage.drop(dsn)
    return Measure(size, seconds, cpu)


def _config(topic: Topic) -> KafkaConfig:
    return KafkaConfig(bootstrap=topic.bootstrap, group=uuid.uuid4().hex, tenant="bench")


def _registers(topic: Topic, places: list[Address]) -> list[WaitMessage]:
    spec = encode_spec(_wait_for(topic))
    return [
        Register(address=place, turn_id=uuid.uuid4().hex, node_id="n", spec=spec, fresh=True)
        for place in places
    ]


async def _register(gateway: ActorClient, topic: Topic, places: list[Address]) -> None:
    messages = _registers(topic, places)
    for start in range(0, len(messages), BATCH):
        await gateway.send_many(messages[start : start + BATCH])


def _wait_for(topic: Topic) -> WaitSpec:
    config = {"kafkaEvent": {"topic": topic.name}, "timeout": 3600}
    return WaitConfig.model_validate(config).to_spec()


async def _follow(gateway: ActorClient, topic: Topic) -> None:
    """Ingest begins with the topic now: until here nobody has named it."""
    await gateway.pool.execute("insert into tenants (slug) values ('bench') on conflict do nothing")
    await gateway.pool.execute(
        "insert into wait_topics (tenant_id, topic, last_deadline)"
        " select tenant_id, $1, now() + interval '1 hour' from tenants where slug = 'bench'",
        topic.name,
    )


async def _until_all(gateway: ActorClient, size: int) -> float:
    """Until everything is stored; when the first partitions were assigned, in seconds since 1970.

    All of it runs on one machine: processes share its clocks.
    """
    deadline = time.monotonic() + 300
    while True:
        report = await gateway.report()
        rows = [row for row in report["actors"] if row["kind"] == "kafka-ingest"]
        stored = sum(row["stats"].get("verdict_matched", 0) for row in rows if "stats" in row)
        if stored >= size:
            first: float = min(row["stats"]["assigned_at"] for row in rows)
            return time.time() - time.monotonic() + first
        assert time.monotonic() < deadline, f"{stored} of {size}"
        await asyncio.sleep(0.2)


async def _check(dsn: str, size: int) -> float:
    """Every event is there, once, and every wait has ended; when the last did."""
    conn = await asyncpg.connect(dsn)
    try:
        done = await conn.fetchval(
            "select count(*) from execution_wait_states where status = 'completed'"
        )
        lines = await conn.fetchval("select count(*) from wait_state_events")
        assert (done, lines) == (size, size), (done, lines)
        ended: float = await conn.fetchval(
            "select extract(epoch from max(updated_at))::float8 from execution_wait_states"
        )
    finally:
        await conn.close()
    return ended


async def _full(bootstrap: str, size: int) -> tuple[Topic, list[Address]]:
    """A topic with an event for each of these correlations."""
    topic = await new_topic(bootstrap)
    places = [Address(1, uuid.uuid4().hex, uuid.uuid4().hex) for _ in range(size)]
    await fill_topic(topic, places)
    return topic, places


async def _read(stage: Stage, bootstrap: str, size: int, peer: Peer) -> Measure:
    topic, _ = await _full(bootstrap, size)
    return await peer(stage, topic, size)


async def _bare(stage: Stage, bootstrap: str, size: int) -> Measure:
    topic, places = await _full(bootstrap, size)
    return await consumers.bare(stage, topic, _registers(topic, places), _config(topic).batch)


async def _plain(stage: Stage, bootstrap: str, size: int) -> Measure:
    topic, places = await _full(bootstrap, size)
    return await consumers.plain(stage, topic, places)


async def _latency(stage: Stage, bootstrap: str, rate: float, seconds: int) -> dict[str, float]:
    """Open loop: events are produced on a schedule; until the commit that completes their wait."""
    size = int(rate * seconds)
    topic, dsn = await new_topic(bootstrap), await stage.database()
    places = [Address(1, uuid.uuid4().hex, uuid.uuid4().hex) for _ in range(size)]
    try:
        async with actors(dsn, shards=SHARDS, kafka=_config(topic), hot_limit=2 * size) as gateway:
            await _register(gateway, topic, places)
            await _follow(gateway, topic)
            await asyncio.sleep(4)  # until the group has its partitions
            due = await _produce(topic, places, rate)
            await _until_all(gateway, size)
        conn = await asyncpg.connect(dsn)
        try:
            rows = await conn.fetch(
                "select correlation_id, extract(epoch from updated_at)::float8"
                " from execution_wait_states where status = 'completed'"
            )
        finally:
            await conn.close()
    finally:
        await stage.drop(dsn)
    waits = [ended - due[correlation] for correlation, ended in rows]
    found = {f"p{share * 100:g}_ms": percentile(waits, share) * 1000 for share in (0.5, 0.99)}
    err.print(f"  produced to completed at {rate:,.0f}/s: {found}")
    return {f"latency_{name}": round(value, 1) for name, value in found.items()}


async def _produce(topic: Topic, places: list[Address], rate: float) -> dict[str, float]:
    producer = AIOKafkaProducer(bootstrap_servers=topic.bootstrap, linger_ms=2)
    await producer.start()
    due: dict[str, float] = {}
    start = time.time() + 0.5
    try:
        for place, at in zip(places, poisson_schedule(rate, len(places), 7), strict=True):
            due[place.correlation_id] = start + at
            pause = start + at - time.time()
            if pause > 0.001:
                await asyncio.sleep(pause)
            await producer.send(topic.name, event_for(place), key=place.correlation_id.encode())
        await producer.flush()
    finally:
        await producer.stop()
    return due
