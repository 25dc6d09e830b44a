"""A member of the consumer group: reads batches, has them stored, then commits their offsets.

Two batches may be under way: while one is committed to Postgres, the next is read. An offset is
committed to Kafka only after all messages before it are in Postgres. Messages that are delivered
again after a crash or a rebalance are deduplicated by their position in the topic.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from actors.kafka.client import client_options
from actors.kafka.counters import IngestCounters
from actors.kafka.tolerant_fetch import fetch_tolerantly
from core.kafka.message import KafkaMessage
from core.shared.kafka_config import KafkaConfig
from services.shared.progress import WorkProgress

log = structlog.get_logger("kafka")

MAX_BATCHES_UNDER_WAY = 2
POLL_MS = 200
COMMIT_EVERY = 0.2
# A batch that takes longer than this means that shards are behind: stop reading, but keep answering
# the group's coordinator.
PAUSE_AFTER = 1.0
# Batches that are not stored in this time are left to the next owner of the partition.
LET_GO_WITHIN = 8.0

HandleRecords = Callable[[list[KafkaMessage]], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Flight:
    """A batch under way, and the offsets of its partitions once it is stored."""

    task: asyncio.Task[None]
    positions: dict[TopicPartition, int]
    began: float


class KafkaReader(ConsumerRebalanceListener):  # type: ignore[misc]
    """Owns one consumer."""

    def __init__(
        self,
        config: KafkaConfig,
        handle: HandleRecords,
        ingest_counters: IngestCounters,
        monotonic: Callable[[], float],
    ) -> None:
        self._config = config
        self._handle = handle
        self._counters = ingest_counters
        self._monotonic = monotonic
        self._flights: deque[_Flight] = deque()
        self._stored: dict[TopicPartition, int] = {}
        # The next offset of each partition to hand on. The consumer's position may be further.
        self._next: dict[TopicPartition, int] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committed_at = 0.0
        self._topics: frozenset[str] = frozenset()
        self._paused: frozenset[str] = frozenset()
        self._locating: asyncio.Task[None] | None = None
        # When the first partition was assigned, by the monotonic clock.
        self.assigned_at: float | None = None
        self._polled_at = monotonic()
        self.committing = WorkProgress(monotonic)
        self._consumer = AIOKafkaConsumer(
            **client_options(config),
            group_id=config.group,
            enable_auto_commit=False,
            auto_offset_reset=config.start.value,
            max_poll_records=config.batch,
            fetch_max_wait_ms=POLL_MS,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=2_000,
            rebalance_timeout_ms=20_000,
            metadata_max_age_ms=5_000,
            isolation_level="read_committed",
        )

    async def start(self) -> None:
        """Connect; nothing is read before `follow`."""
        await self._consumer.start()

    async def stop(self) -> None:
        await self._finish_all()
        await self._consumer.stop()

    async def existing_topics(self) -> set[str]:
        return set(await self._consumer.topics())

    def follow(self, topics: Iterable[str]) -> None:
        wanted = frozenset(topics)
        if wanted == self._topics:
            return
        log.info("kafka.following", topics=sorted(wanted))
        self._topics = wanted
        if self._locating is not None:
            self._locating.cancel()
        if wanted:
            self._consumer.subscribe(sorted(wanted), listener=self)
        else:
            self._consumer.unsubscribe()

    def pause_topics(self, topics: Iterable[str]) -> None:
        """Pause exactly these topics; Kafka keeps their messages."""
        before, self._paused = self._paused, frozenset(topics)
        if before - self._paused:
            self._resume()
        self._consumer.pause(*self._to_pause())

    def _resume(self) -> None:
        self._consumer.resume(*(self._consumer.paused() - self._to_pause()))

    def _to_pause(self) -> set[TopicPartition]:
        return {place for place in self._consumer.assignment() if place.topic in self._paused}

    async def read_forever(self) -> None:
        while True:
            self._polled_at = self._monotonic()
            if not self._topics:
                await asyncio.sleep(POLL_MS / 1000)
                continue
            found = await self._poll(POLL_MS)
            self._begin(found)
            while len(self._flights) >= MAX_BATCHES_UNDER_WAY:
                await self._await_oldest()
                await self._reap()
            await self._reap()
            if not found and not self._flights:
                await self._skip_what_nobody_sees()

    @property
    def polled_ago(self) -> float:
        return self._monotonic() - self._polled_at

    def partitions(self) -> list[dict[str, Any]]:
        """Describe each assigned partition; `lag` counts messages that are not stored yet."""
        rows = []
        for place in sorted(self._consumer.assignment()):
            end = self._consumer.highwater(place)
            stored = self._stored.get(place)
            lag = None if end is None or stored is None else max(0, end - stored)
            rows.append(
                {"topic": place.topic, "partition": place.partition, "stored": stored,
                 "end": end, "lag": lag, "held": place.topic in self._paused}
            )  # fmt: skip
        return rows

    @property
    def stored_ago(self) -> float:
        """Return the seconds since the oldest batch under way was read; 0 without any."""
        return self._monotonic() - self._flights[0].began if self._flights else 0.0

    @property
    def under_way(self) -> int:
        return len(self._flights)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Finish or drop the batches under way before another member reads their partitions."""
        await self._finish_all()
        for place in list(revoked):
            self._stored.pop(place, None)
            self._next.pop(place, None)
            # The next owner commits further offsets, which this one would undo later.
            self._uncommitted.pop(place, None)
        self._counters.rebalances += 1

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Start at the offsets that the group has committed.

        A new subscription ends this: the positions would wait for its assignment, and that for the
        end of this listener.
        """
        places = list(assigned)
        if places and self.assigned_at is None:
            self.assigned_at = self._monotonic()
        locating = self._locating = asyncio.create_task(self._locate(places))
        try:
            await asyncio.wait({locating})
        finally:
            locating.cancel()
        if locating.cancelled():
            return
        locating.result()
        self._consumer.pause(*self._to_pause())
        log.info("kafka.assigned", partitions=len(self._consumer.assignment()))

    async def _locate(self, places: list[TopicPartition]) -> None:
        for place in places:
            position = await self._consumer.position(place)
            self._stored[place] = self._next[place] = position

    async def _poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        try:
            try:
                found: dict[TopicPartition, list[Any]] = await self._consumer.getmany(
                    timeout_ms=timeout_ms, max_records=self._config.batch
                )
            except UnicodeDecodeError as error:
                log.warning("kafka.header_unreadable", error=str(error))
                self._go_back()
                found = await self._read_carefully()
        except KafkaError as error:
            log.warning("kafka.read_failed", error=repr(error))
            self._go_back()
            await asyncio.sleep(0.5)
            return {}
        return found

    def _go_back(self) -> None:
        """Seek to the last offsets handed on: a failed poll loses messages of other partitions."""
        for place in self._consumer.assignment():
            if place in self._next:
                self._consumer.seek(place, self._next[place])

    async def _read_carefully(self) -> dict[TopicPartition, list[Any]]:
        """Read partition by partition; decode the raw bytes where aiokafka fails."""
        found: dict[TopicPartition, list[Any]] = {}
        for place in sorted(self._consumer.assignment()):
            end = self._consumer.highwater(place)
            if end is not None and end <= self._next.get(place, -1):
                continue  # nothing to read
            try:
                found |= await self._consumer.getmany(
                    place, timeout_ms=POLL_MS, max_records=self._config.batch
                )
            except UnicodeDecodeError:
                start = await self._consumer.position(place)
                messages, behind = await fetch_tolerantly(self._consumer, place, start)
                self._consumer.seek(place, behind)
                if messages:
                    found[place] = messages
                break  # the next poll reads the other partitions
        return found

    async def _skip_what_nobody_sees(self) -> None:
        """Skip aborted transactions and markers, so that they do not count as lag."""
        try:
            async with asyncio.timeout(POLL_MS / 1000):
                for place in self._consumer.assignment():
                    position = await self._consumer.position(place)
                    if place in self._next and position > self._next[place]:
                        self._next[place] = self._stored[place] = position
                        self._uncommitted[place] = position
        except (TimeoutError, KafkaError) as error:
            log.debug("kafka.position_unknown", error=repr(error))

    def _begin(self, found: dict[TopicPartition, list[Any]]) -> None:
        if not found:
            return
        records = [
            KafkaMessage(
                topic=place.topic,
                partition=place.partition,
                offset=message.offset,
                value=message.value,
                key=message.key,
                headers=tuple(message.headers),
            )
            for place, messages in found.items()
            for message in messages
        ]
        positions = {place: messages[-1].offset + 1 for place, messages in found.items()}
        self._next |= positions
        self._counters.batch(len(records))
        task = asyncio.create_task(self._handle(records))
        self._flights.append(_Flight(task, positions, self._monotonic()))

    async def _await_oldest(self) -> None:
        """Wait for the oldest batch; if it takes long, stop reading but stay in the group."""
        task = self._flights[0].task
        await asyncio.wait({task}, timeout=PAUSE_AFTER)
        if task.done():
            return
        self._counters.pauses += 1
        log.warning("kafka.paused", partitions=len(self._consumer.assignment()))
        while not task.done():
            # Pause in every round, because newly assigned partitions are not paused. At most one
            # batch of them is read before.
            self._consumer.pause(*self._consumer.assignment())
            self._begin(await self._poll(POLL_MS))
        self._resume()

    async def _reap(self) -> None:
        """Record stored batches, and commit their offsets at intervals."""
        while self._flights and self._flights[0].task.done():
            flight = self._flights.popleft()
            flight.task.result()  # on a bug the process ends and Kafka delivers the batch again
            self._stored |= flight.positions
            self._uncommitted |= flight.positions
        if self._monotonic() - self._committed_at > COMMIT_EVERY:
            await self._commit()

    async def _commit(self) -> None:
        self._committed_at = self._monotonic()
        ours = self._consumer.assignment()
        offsets = {p: o for p, o in self._uncommitted.items() if p in ours}
        if not offsets:
            return
        self.committing.waits()
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError) as error:
            # The partitions have moved: their new owner reads the messages again, as duplicates.
            log.warning("kafka.commit_lost", error=type(error).__name__)
        except KafkaError as error:
            log.warning("kafka.commit_failed", error=repr(error))
            return  # the next batch tries again
        else:
            self._counters.commits += 1
        self.committing.done()
        for place, offset in offsets.items():
            if self._uncommitted.get(place) == offset:  # no later offset was added meanwhile
                del self._uncommitted[place]

    async def _finish_all(self) -> None:
        tasks = [flight.task for flight in self._flights]
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_WITHIN)
        while self._flights:
            flight = self._flights.popleft()
            if flight.task.done() and not flight.task.cancelled() and not flight.task.exception():
                self._uncommitted |= flight.positions
            else:
                flight.task.cancel()
                log.warning("kafka.batch_dropped", partitions=len(flight.positions))
                while self._flights:  # nothing after a dropped batch may be committed
                    self._flights.popleft().task.cancel()
        await self._commit()
