"""The Ray actor of Kafka ingest: one consumer, its topics and what it stores."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from actors.kafka.client import describe_error, start_producer
from actors.kafka.counters import IngestCounters
from actors.kafka.reader import KafkaReader
from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Actor
from core.access.usage_counter import UsageCounter
from core.kafka.message import KafkaMessage
from core.kafka.topic_routing import TopicRouting
from core.shared.config import Config
from core.shared.kafka_config import KafkaConfig
from core.shared.quotas import Quota
from services.access.quota_monitor import READ_INTERVAL as READ_USAGE_EVERY
from services.access.quota_monitor import QuotaWatch, usage_source
from services.access.usage_writer import FLUSH_INTERVAL as USAGE_INTERVAL
from services.access.usage_writer import UsageWriter
from services.kafka.ingest import Ingest, IngestDeps
from services.kafka.ingest_store import PostgresIngestStore
from services.waits.intake import CorrelationResolver, IdFieldRegistry
from storage.access import keys, usage
from storage.kafka import named_topics
from storage.operations import warnings
from storage.operations.warnings import NewWarning, Severity
from storage.waits import waits

# Postgres has the dead letters already, so ingest waits no longer than this for their copies.
COPY_WITHIN = 10.0
log = structlog.get_logger("kafka")

TOPIC_REFRESH_INTERVAL = 2.0


class DeadLetterTopic:
    """Publishes if a topic is configured; connects with the first dead letter."""

    def __init__(self, config: KafkaConfig, max_bytes: int) -> None:
        self._config = config
        self._max_bytes = max_bytes
        self._producer: AIOKafkaProducer | None = None
        self._connecting = asyncio.Lock()

    async def publish(self, letters: Sequence[tuple[KafkaMessage, str]]) -> None:
        """Send copies with their origin and error; log failures instead of raising them."""
        topic = self._config.dead_letter_topic
        if topic is None or not letters:
            return
        try:
            async with asyncio.timeout(COPY_WITHIN):
                producer = await self._connected()
                await asyncio.gather(*[_copy(producer, topic, *letter) for letter in letters])
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("kafka.dead_letter_not_copied", error=repr(error), letters=len(letters))
        except Exception:
            # A message that the client rejects must not end the ingest.
            log.exception("kafka.dead_letter_not_copied", letters=len(letters))

    async def _connected(self) -> AIOKafkaProducer:
        async with self._connecting:
            if self._producer is None:
                self._producer = await start_producer(self._config, 2 * self._max_bytes)
        return self._producer

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.stop()


async def _copy(producer: AIOKafkaProducer, topic: str, record: KafkaMessage, error: str) -> None:
    # The client refuses a message with neither key nor value, so it gets an empty value.
    empty = b"" if record.key is None else None
    value = empty if record.value is None else record.value
    origin = [
        ("muster-error", error.encode(errors="replace")),
        ("muster-topic", record.topic.encode()),
        ("muster-partition", str(record.partition).encode()),
        ("muster-offset", str(record.offset).encode()),
    ]
    await producer.send_and_wait(topic, value, key=record.key, headers=[*record.headers, *origin])


class KafkaIngestActor(Actor[KafkaReader]):
    """Reads its share of the partitions. All its state is in Kafka or Postgres."""

    kind = "kafka-ingest"

    def __init__(self, name: str, config: Config) -> None:
        if config.kafka is None:
            raise ValueError("Kafka is not configured")
        super().__init__(name, config)
        self._kafka = config.kafka
        self._routing = TopicRouting.of(self._kafka)
        self._counters = IngestCounters()
        self._tenants: dict[str, int] = {}
        self._following: list[str] = []
        self._paused: frozenset[str] = frozenset()
        self._usage = UsageCounter()
        self._error: str | None = None

    def _stats(self) -> dict[str, Any]:
        reader = self._hosted
        return {
            **self._counters.snapshot(),
            "connected": reader is not None,
            "error": self._error,
            "in_flight": reader.under_way if reader else 0,
            "held_back": self._ingest.held_back if reader else 0,
            "partitions": reader.partitions() if reader else [],
            "assigned_at": reader.assigned_at if reader else None,
            "following": self._following,
            "held_by_quota": len(self._paused),
            "polled_ago": reader.polled_ago if reader else None,
        }

    async def _start(self) -> KafkaReader:
        await self._open_database(3)
        self._ingest = Ingest(self._deps(), self._config.max_body)
        self._dead_letter_topic = DeadLetterTopic(self._kafka, self._config.max_body)
        reader = await self._connected()
        await self._retrying(partial(self._refresh_topics, reader))
        self._keep_to_quotas(reader)
        self._measure("poll", lambda: reader.polled_ago)
        self._measure("store_batch", lambda: reader.stored_ago)
        self._measure("commit", lambda: reader.committing.stalled_seconds)
        self._spawn(reader.read_forever())
        self._every(TOPIC_REFRESH_INTERVAL, partial(self._refresh_topics, reader))
        return reader

    def _keep_to_quotas(self, reader: KafkaReader) -> None:
        usage_writer = UsageWriter(self._usage, partial(usage.add, self._database)).flush
        self._every(USAGE_INTERVAL, usage_writer)
        watch = QuotaWatch(self._config.quotas, usage_source(self._database, self._config))
        self._every(READ_USAGE_EVERY, partial(self._pause_topics, reader, watch))

    async def _pause_topics(self, reader: KafkaReader, watch: QuotaWatch) -> None:
        """Pause the topics of tenants whose storage quota is used up; Kafka keeps the messages."""
        tenants = self._tenants
        owners = {topic: tenants.get(self._routing.tenant_of(topic)) for topic in self._following}
        for owner in owners.values():
            if owner is not None:
                watch.watch(owner)
        await watch.refresh()
        paused = frozenset(topic for topic, tenant in owners.items() if tenant in watch.exhausted)
        reader.pause_topics(paused)
        for topic in paused - self._paused:
            tenant = owners[topic]
            if tenant is not None:
                await self._warn(tenant, topic, *watch.exhausted[tenant])
        self._paused = paused

    async def _warn(self, tenant: int, topic: str, quota: Quota, limit: int) -> None:
        log.warning("kafka.held_by_quota", topic=topic, tenant=tenant, quota=quota)
        message = (
            f"topic {topic} is not read: the quota {quota} ({limit}) is used up; nothing is lost, "
            "it goes on when there is room"
        )
        warning = NewWarning(tenant, "QUOTA", Severity.WARNING, f"{quota}/{topic}", message)
        await warnings.warn(self._database, warning)

    def _deps(self) -> IngestDeps:
        profiles = IdFieldRegistry(
            partial(keys.list_profiles, self._database),
            partial(keys.create_profile, self._database),
        )
        return IngestDeps(
            resolver=CorrelationResolver(profiles, partial(waits.load_waits, self._database)),
            send_many=ShardClient.open(self._config).send_many,
            store=PostgresIngestStore(self._database, self._config.early_ttl, self._usage),
            now=self._environment.now,
            chance=self._environment.chance,
            new_turn_id=self._environment.new_turn_id,
        )

    async def _connected(self) -> KafkaReader:
        """Return a consumer that has reached a broker; try until one does."""
        while True:
            reader = KafkaReader(self._kafka, self._handle, self._counters, time.monotonic)
            try:
                await reader.start()
            except (KafkaError, OSError) as error:
                self._error = describe_error(error)
                log.warning("kafka.unreachable", error=self._error)
                await reader.stop()
                await asyncio.sleep(1.0)
            else:
                self._error = None
                return reader

    async def _refresh_topics(self, reader: KafkaReader) -> None:
        """Follow the existing topics that are configured or named by waits."""
        self._tenants = await keys.tenants(self._database)
        named = await named_topics.named_topics(self._database)
        try:
            existing = await reader.existing_topics()
        except KafkaError as error:
            self._error = describe_error(error)
            log.warning("kafka.topics_unknown", error=self._error)
            return
        self._error = None
        wanted = self._routing.topics_to_read(existing, named, self._tenants)
        self._following = sorted(wanted)
        reader.follow(wanted)

    async def _handle(self, records: list[KafkaMessage]) -> None:
        by_tenant: dict[int, list[KafkaMessage]] = {}
        for record in records:
            tenant = self._tenants[self._routing.tenant_of(record.topic)]
            by_tenant.setdefault(tenant, []).append(record)
        # Tenants are handled concurrently, so that a few messages of one do not wait for many of
        # another. Messages of one correlation belong to one tenant and stay in order.
        async with asyncio.TaskGroup() as tenants:
            for tenant, group in by_tenant.items():
                tenants.create_task(self._handle_of(tenant, group))

    async def _handle_of(self, tenant: int, records: list[KafkaMessage]) -> None:
        done = await self._ingest.handle(tenant, records)
        await self._dead_letter_topic.publish(done.dead_letters)
        self._counters.handled(done)
