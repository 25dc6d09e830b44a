"""A real Kafka for tests: one broker a session for those that only use it, own ones to be broken.

`kafka` is shared: tests keep apart by the names of their topics and groups. `own_kafka` belongs to
one test, which may stop, restart and kill it. Topics are never made by naming them, so a misspelt
one fails, and one that is made late is really made late.
"""

import asyncio
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from host.errors import MissingPartError
from host.kafka import apache, mock
from host.kafka.apache import ApacheOptions
from host.kafka.broker import Broker, BrokerKind, is_answering, kill, stop
from host.kafka.selection import Runtime, find_runtime
from settings.settings import Settings
from tests.support.process_logs import watched

IN_TESTS = ApacheOptions(auto_create_topics=False, heap="256m")
ADVICE = "`make kafka-jars` fetches them."


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToProduce:
    """A message to produce."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class _RawName(str):
    """A name that stands for bytes: surrogates become what they escape."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> bytes:
        return super().encode(encoding, errors)


@dataclass
class Kafka:
    """A broker, and what tests do with one."""

    broker: Broker

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def is_real(self) -> bool:
        return self.broker.kind is BrokerKind.APACHE

    async def create_topic(
        self, name: str | None = None, *, partitions: int = 3, **settings: str
    ) -> str:
        """Make a topic and return its name once it can be written; a unique one if none is given.

        Settings are the topic's own, with underscores for dots. The mock knows none: its topics
        have four partitions.
        """
        name = name or unique("topic")
        async with self._admin() as admin:
            if self.is_real:
                configs = {key.replace("_", "."): value for key, value in settings.items()}
                topic = NewTopic(name, partitions, 1, topic_configs=configs)
                reply = await admin.create_topics([topic])
                ((_, code, message),) = reply.topic_errors
                assert code == 0, f"{name} was not made: {message}"
            await _until(f"{name} has leaders", lambda: _has_leaders(admin, name), 30)
        return name

    async def delete_topic(self, name: str) -> None:
        async with self._admin() as admin:
            await admin.delete_topics([name])

    async def topics(self) -> set[str]:
        async with self._admin() as admin:
            return set(await admin.list_topics())

    async def partitions_of(self, topic: str) -> list[int]:
        async with self._admin() as admin:
            (described,) = await admin.describe_topics([topic])
            return sorted(part["partition"] for part in described["partitions"])

    async def produce(
        self, topic: str, messages: Iterable[MessageToProduce | bytes], **options: Any
    ) -> list[tuple[int, int]]:
        """Send all of them, acknowledged; the partition and offset each has got, in order."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all", **options)
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    sent.value,
                    key=sent.key,
                    headers=list(sent.headers),
                    partition=sent.partition,
                    timestamp_ms=sent.timestamp_ms,
                )
                for sent in map(_as_sent, messages)
            ]
            await producer.flush()
            placed = [await future for future in futures]
        finally:
            await producer.stop()
        return [(place.partition, place.offset) for place in placed]

    async def produce_batch(
        self, topic: str, partition: int, messages: Iterable[MessageToProduce]
    ) -> int:
        """Send all of them in one batch, with headers named by any bytes; where it begins."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await producer.start()
        try:
            batch = producer.create_batch()
            batch._builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, -1, 1_000_000)
            for sent in messages:
                headers = [(_RawName(name), value) for name, value in sent.headers]
                batch.append(timestamp=None, key=sent.key, value=sent.value, headers=headers)
            placed = await (await producer.send_batch(batch, topic, partition=partition))
        finally:
            await producer.stop()
        return int(placed.offset)

    async def consume(self, topic: str, count: int, *, within: float = 30.0) -> list[Any]:
        """The first `count` records of a topic, by partition and offset; fails if they never come.

        It joins no group and commits nothing.
        """
        deadline = time.monotonic() + within
        found: list[Any] = []
        async with self._reader(topic) as (reader, places):
            await reader.seek_to_beginning(*places)
            while len(found) < count and time.monotonic() < deadline:
                batches = await reader.getmany(timeout_ms=200)
                found += [record for batch in batches.values() for record in batch]
        assert len(found) >= count, f"{len(found)} of {count} records on {topic} in {within:g} s"
        return sorted(found, key=lambda record: (record.partition, record.offset))[:count]

    async def end_offsets(self, topic: str) -> dict[int, int]:
        """The offset behind the last record of each partition."""
        async with self._reader(topic) as (reader, places):
            ends = await reader.end_offsets(places)
        return {place.partition: offset for place, offset in ends.items()}

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """What a group has committed, by topic and partition."""
        async with self._admin() as admin:
            asked = None if self.is_real else await _all_places(admin)  # the mock must be told all
            offsets = await admin.list_consumer_group_offsets(group, partitions=asked)
        return {(at.topic, at.partition): it.offset for at, it in offsets.items() if it.offset >= 0}

    @asynccontextmanager
    async def _admin(self) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    @asynccontextmanager
    async def _reader(self, topic: str) -> Any:
        partitions = await self.partitions_of(topic)
        reader = AIOKafkaConsumer(bootstrap_servers=self.bootstrap)
        await reader.start()
        try:
            places = [TopicPartition(topic, partition) for partition in partitions]
            reader.assign(places)
            yield reader, places
        finally:
            await reader.stop()


@dataclass
class OwnKafka(Kafka):
    """An Apache Kafka of one test. It keeps its data and its port over every restart."""

    runtime: Runtime

    async def start(self) -> None:
        """Start it again after `stop` or `kill`; returns when it answers."""
        options = replace(IN_TESTS, port=self.broker.port)
        self.broker = await asyncio.to_thread(_start, self.broker.folder, self.runtime, options)

    async def stop(self) -> None:
        """End it in order."""
        await asyncio.to_thread(stop, self.broker)

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await asyncio.to_thread(kill, self.broker)

    async def restart(self) -> None:
        """Stop and start."""
        await self.stop()
        await self.start()

    async def answers(self) -> bool:
        """Whether it can be reached and knows itself."""
        return await asyncio.to_thread(is_answering, self.bootstrap)


def unique(prefix: str) -> str:
    """A name for a topic or a group that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def runtime_or_reason() -> Runtime | str:
    """What Apache Kafka runs on, or why it cannot run here; fetches nothing."""
    try:
        return find_runtime(Settings.load().kafka_jars)
    except MissingPartError as missing:
        return f"{missing} {ADVICE}"


def pytest_report_collectionfinish(items: list[pytest.Item]) -> list[str]:
    """Say which broker the tests get, where any of them uses one."""
    wanted = {"kafka", "own_kafka"}
    if not any(wanted & set(getattr(item, "fixturenames", ())) for item in items):
        return []
    found = runtime_or_reason()
    if isinstance(found, Runtime):
        return [f"kafka: Apache Kafka {found.jars.version} on Java {found.java.version}"]
    return [
        f"kafka: WARNING: librdkafka's mock broker instead of Apache Kafka, because {found} "
        f"It lacks: {'; '.join(mock.LIMITATIONS)}. Tests that need one of their own are skipped."
    ]


@pytest.fixture(scope="session")
def kafka_runtime() -> Runtime | str:
    """Looked for once a session."""
    return runtime_or_reason()


@pytest.fixture(scope="session")
def kafka(
    kafka_runtime: Runtime | str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kafka]:
    """The session's broker: use topics and groups of your own, and leave it running."""
    folder = tmp_path_factory.mktemp("kafka")
    with watched(folder):
        if isinstance(kafka_runtime, Runtime):
            broker = _start(folder, kafka_runtime, IN_TESTS)
        else:
            broker = mock.start(folder, reason=kafka_runtime)
        print(f"kafka: {broker.describe()} at {broker.bootstrap}")  # noqa: T201
        yield Kafka(broker)
        stop(broker)


@pytest.fixture
def own_kafka(kafka_runtime: Runtime | str, tmp_path: Path) -> Iterator[OwnKafka]:
    """A broker that only this test uses, to be stopped and killed at will; Apache Kafka only."""
    if not isinstance(kafka_runtime, Runtime):
        pytest.skip(f"needs Apache Kafka, but {kafka_runtime}")
    with watched(tmp_path / "kafka"):
        own = OwnKafka(_start(tmp_path / "kafka", kafka_runtime, IN_TESTS), kafka_runtime)
        yield own
        kill(own.broker)


def _start(folder: Path, runtime: Runtime, options: ApacheOptions) -> Broker:
    return apache.start(folder, options, runtime.java, runtime.jars)


def _as_sent(message: MessageToProduce | bytes) -> MessageToProduce:
    return message if isinstance(message, MessageToProduce) else MessageToProduce(value=message)


async def _has_leaders(admin: Any, topic: str) -> bool:
    (described,) = await admin.describe_topics([topic])
    partitions = described["partitions"]
    return bool(partitions) and all(part["leader"] >= 0 for part in partitions)


async def _all_places(admin: Any) -> list[TopicPartition]:
    topics = await admin.describe_topics(await admin.list_topics())
    return [
        TopicPartition(one["topic"], p["partition"]) for one in topics for p in one["partitions"]
    ]


async def _until(what: str, check: Any, within: float) -> None:
    deadline = time.monotonic() + within
    while not await check():
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        await asyncio.sleep(0.05)
