"""Publishes the outbox in the order it was written; rows are removed once the broker has them.

Each topic is published separately, so that one failing topic does not block the others. Refused
rows stay in the outbox and are tried again with growing pauses. After a crash between publishing
and removing, a row is published again under the same event id.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Generic, Protocol

import structlog

from actors.kafka.topic_batch import PreparedMessage, PublishMessage, Row, TopicBatch
from core.shared.backoff import backoff
from services.shared.progress import WorkProgress

log = structlog.get_logger("relay")

BATCH = 500
IDLE = 0.1
# The pause while rows are postponed: each round reads past all of them.
IDLE_HELD = 0.5
MAX_TOPIC_BATCHES = 64
TOPIC_CAP, ROW_CAP = 5.0, 60.0


@dataclass(slots=True)
class RelayCounters:
    """Counters of the relay. The last two describe the current state."""

    published: int = 0
    batches: int = 0
    failures: int = 0
    vanished: int = 0
    held_topics: int = 0
    refused: int = 0

    def __add__(self, other: "RelayCounters") -> "RelayCounters":
        return RelayCounters(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(slots=True)
class _Postponement:
    """How often a row or topic has failed, and until when it is not tried again."""

    attempts: int = 0
    until: float = 0.0


class OutboxReader(Protocol[Row]):
    """An outbox, and the messages that its rows stand for."""

    async def upcoming(self, after: int, limit: int, without: Sequence[str]) -> list[Row]:
        """Read the next rows, except those of the topics `without`."""

    async def messages(self, rows: Sequence[Row]) -> list[PreparedMessage]:
        """Prepare the messages of the first rows: as many as may be in memory, at least one."""

    async def confirm(self, outbox_ids: Sequence[int]) -> None:
        """Delete rows whose messages were published."""


class Relay(Generic[Row]):
    """Publishes the rows of the outbox in batches."""

    def __init__(
        self,
        outbox: OutboxReader[Row],
        publish: PublishMessage,
        sleep: Callable[[float], Awaitable[None]],
        monotonic: Callable[[], float],
        counters: RelayCounters | None = None,
    ) -> None:
        self._outbox = outbox
        self._publish = publish
        self._sleep = sleep
        self._monotonic = monotonic
        self._topics: dict[str, _Postponement] = {}
        self._rows: dict[str, dict[str, _Postponement]] = {}
        self._batches: dict[str, tuple[TopicBatch[Row], asyncio.Task[None]]] = {}
        self._after = 0
        self.counters = counters or RelayCounters()
        self.progress = WorkProgress(monotonic)

    async def run_forever(self) -> None:
        try:
            while True:
                if not await self.publish_some():
                    await self._sleep(IDLE_HELD if self._topics or self._rows else IDLE)
        finally:
            for _, task in self._batches.values():
                task.cancel()

    async def publish_some(self) -> int:
        """Publish a batch, or continue those under way; return how many rows left the outbox."""
        if len(self._batches) < MAX_TOPIC_BATCHES:
            await self._start_batches()
        if not self._batches:
            self.progress.done()
            return 0
        self.progress.waits()
        tasks = [task for _, task in self._batches.values()]
        await asyncio.wait(tasks, timeout=IDLE_HELD, return_when=asyncio.FIRST_COMPLETED)
        ended = [topic for topic, (_, task) in self._batches.items() if task.done()]
        done: list[int] = []
        for topic in ended:
            batch, task = self._batches.pop(topic)
            task.result()
            self._settle(topic, batch)
            done += [row.outbox_id for row in (*batch.published, *batch.vanished)]
        if done:
            await self._outbox.confirm(done)
        if ended:  # a refused row counts as progress: it is counted and reported separately
            self.progress.done()
        return len(done)

    async def _start_batches(self) -> None:
        now = self._monotonic()
        postponed = [topic for topic, hold in self._topics.items() if hold.until > now]
        rows = await self._outbox.upcoming(self._after, BATCH, [*postponed, *self._batches])
        due = [row for row in rows if not self._is_put_off(row, now)]
        made = await self._outbox.messages(due) if due else []
        # Read past the refused rows to the end of the outbox, then from its beginning again.
        self._after = _read_to(rows, due[: len(made)], due) if self._rows else 0
        if not due:
            return
        self.counters.batches += 1
        by_topic: dict[str, list[tuple[Row, PreparedMessage]]] = {}
        for row, one in zip(due, made, strict=False):
            by_topic.setdefault(row.topic, []).append((row, one))
        for topic, pairs in by_topic.items():
            batch: TopicBatch[Row] = TopicBatch(self._publish, self._rows.get(topic, {}))
            self._batches[topic] = (batch, asyncio.create_task(batch.run(pairs)))

    def _is_put_off(self, row: Row, now: float) -> bool:
        hold = self._rows.get(row.topic, {}).get(row.record_key)
        return hold is not None and hold.until > now

    def _settle(self, topic: str, batch: TopicBatch[Row]) -> None:
        counters = self.counters
        counters.published += len(batch.published)
        counters.vanished += len(batch.vanished)
        counters.failures += len(batch.refused) + (batch.trouble is not None)
        rows = self._rows.pop(topic, {})
        for row in (*batch.published, *batch.vanished):
            rows.pop(row.record_key, None)
        for row in batch.vanished:
            log.error("relay.vanished", topic=topic, key=row.record_key, row=row.outbox_id)
        for row, error in batch.refused:
            hold = rows.setdefault(row.record_key, _Postponement())
            self._put_off(hold, ROW_CAP)
            about = {"topic": topic, "key": row.record_key, "attempts": hold.attempts}
            log.warning("relay.not_published", error=repr(error), **about)
        if rows:
            self._rows[topic] = rows
        self._judge(topic, batch)
        counters.held_topics = len(self._topics)
        counters.refused = sum(len(rows) for rows in self._rows.values())

    def _judge(self, topic: str, batch: TopicBatch[Row]) -> None:
        if batch.trouble is not None:
            hold = self._topics.setdefault(topic, _Postponement())
            self._put_off(hold, TOPIC_CAP)
            about = {"topic": topic, "attempts": hold.attempts}
            log.warning("relay.topic_held", error=repr(batch.trouble), **about)
        elif self._topics.pop(topic, None) is not None:
            log.info("relay.topic_resumed", topic=topic)

    def _put_off(self, hold: _Postponement, cap: float) -> None:
        hold.until = self._monotonic() + backoff(hold.attempts, base=0.5, cap=cap, jitter=1.0)
        hold.attempts += 1


def _read_to(rows: list[Row], taken: list[Row], due: list[Row]) -> int:
    """Return the row after which to continue; 0 at the end of the outbox."""
    if len(taken) < len(due):
        return taken[-1].outbox_id
    return rows[-1].outbox_id if len(rows) == BATCH else 0
