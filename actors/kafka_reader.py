"""One member of the consumer group: reads batches, sees them stored, then commits their offsets.

Two batches may be under way: while one is being committed to Postgres, the next is being read. An
offset is committed to Kafka only after everything before it is in Postgres; whatever is delivered
again after a crash or a rebalance is recognised by its place in its topic.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from actors.kafka_client import client_options
from actors.kafka_tally import KafkaTally
from core.kafka_config import KafkaConfig
from core.record import Record

log = structlog.get_logger("kafka")

UNDER_WAY = 2
POLL_MS = 200
COMMIT_EVERY = 0.2
# A batch that takes longer than this means that shards are behind: stop reading, keep answering
# the group's coordinator.
PAUSE_AFTER = 1.0
# What is not stored by then is left to whoever gets the partition.
LET_GO_WITHIN = 8.0

Handle = Callable[[list[Record]], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Flight:
    """A batch under way, and where its partitions stand once it is stored."""

    task: asyncio.Task[None]
    positions: dict[TopicPartition, int]


class KafkaReader(ConsumerRebalanceListener):  # type: ignore[misc]
    """Owns one consumer."""

    def __init__(
        self,
        config: KafkaConfig,
        handle: Handle,
        tally: KafkaTally,
        monotonic: Callable[[], float],
    ) -> None:
        self._config = config
        self._handle = handle
        self._tally = tally
        self._monotonic = monotonic
        self._flights: deque[_Flight] = deque()
        self._stored: dict[TopicPartition, int] = {}
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committed_at = 0.0
        self._topics: frozenset[str] = frozenset()
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
        )

    async def start(self) -> None:
        """Connect; nothing is read before `follow`."""
        await self._consumer.start()

    async def stop(self) -> None:
        """Let go of everything; the group moves the partitions at once."""
        await self._finish_all()
        await self._consumer.stop()

    async def existing_topics(self) -> set[str]:
        """The topics this cluster has now."""
        return set(await self._consumer.topics())

    def follow(self, topics: Iterable[str]) -> None:
        """Read these topics from now on."""
        wanted = frozenset(topics)
        if wanted == self._topics:
            return
        log.info("kafka.following", topics=sorted(wanted))
        self._topics = wanted
        if wanted:
            self._consumer.subscribe(sorted(wanted), listener=self)
        else:
            self._consumer.unsubscribe()

    async def read_forever(self) -> None:
        """Read, hand on, commit."""
        while True:
            if not self._topics:
                await asyncio.sleep(POLL_MS / 1000)
                continue
            self._begin(await self._poll(POLL_MS))
            if len(self._flights) >= UNDER_WAY:
                await self._await_oldest()
            await self._reap()

    def partitions(self) -> list[dict[str, Any]]:
        """Where each assigned partition stands. `lag` is what is there and not stored yet."""
        rows = []
        for place in sorted(self._consumer.assignment()):
            end = self._consumer.highwater(place)
            stored = self._stored.get(place)
            lag = None if end is None or stored is None else max(0, end - stored)
            rows.append(
                {"topic": place.topic, "partition": place.partition, "stored": stored,
                 "end": end, "lag": lag}
            )  # fmt: skip
        return rows

    @property
    def under_way(self) -> int:
        """Batches that are being stored."""
        return len(self._flights)

    # The group

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Finish or drop what is under way before somebody else reads it."""
        await self._finish_all()
        for place in list(revoked):
            self._stored.pop(place, None)
        self._tally.rebalances += 1

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin where the group has committed."""
        for place in assigned:
            self._stored[place] = await self._consumer.position(place)
        log.info("kafka.assigned", partitions=len(self._consumer.assignment()))

    # Batches

    async def _poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        try:
            found: dict[TopicPartition, list[Any]] = await self._consumer.getmany(
                timeout_ms=timeout_ms, max_records=self._config.batch
            )
        except KafkaError as error:
            log.warning("kafka.read_failed", error=repr(error))
            await asyncio.sleep(0.5)
            return {}
        return found

    def _begin(self, found: dict[TopicPartition, list[Any]]) -> None:
        if not found:
            return
        records = [
            Record(
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
        self._tally.batch(len(records))
        self._flights.append(_Flight(asyncio.create_task(self._handle(records)), positions))

    async def _await_oldest(self) -> None:
        """Wait for the oldest batch; if it takes long, stop reading but stay in the group."""
        task = self._flights[0].task
        await asyncio.wait({task}, timeout=PAUSE_AFTER)
        if task.done():
            return
        paused = self._consumer.assignment()
        self._consumer.pause(*paused)
        self._tally.pauses += 1
        log.warning("kafka.paused", partitions=len(paused))
        while self._flights and not self._flights[0].task.done():
            # Nothing comes of it except partitions that were assigned meanwhile.
            self._begin(await self._poll(POLL_MS))
        still_ours = [place for place in paused if place in self._consumer.assignment()]
        self._consumer.resume(*still_ours)

    async def _reap(self) -> None:
        """Take note of what is stored; tell Kafka now and then."""
        while self._flights and self._flights[0].task.done():
            flight = self._flights.popleft()
            flight.task.result()  # a bug: the process ends and the batch is delivered again
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
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError) as error:
            # The partitions have moved: their new owner sees the records again, as duplicates.
            log.warning("kafka.commit_lost", error=type(error).__name__)
        except KafkaError as error:
            log.warning("kafka.commit_failed", error=repr(error))
            return  # tried again with the next batch
        else:
            self._tally.commits += 1
        for place, offset in offsets.items():
            if self._uncommitted.get(place) == offset:  # no later one has been added meanwhile
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
                self._abandon_later()
                break
        await self._commit()

    def _abandon_later(self) -> None:
        """Nothing after a dropped batch may be committed."""
        while self._flights:
            self._flights.popleft().task.cancel()
