"""The rows of one topic that are being published together."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Generic, Protocol, TypeVar

import structlog
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

log = structlog.get_logger("relay")

# An idempotent producer retries for ever; after this time the topic counts as failed.
CONFIRM_WITHIN = 30.0
# Errors of the event itself; all other Kafka errors concern the topic.
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


class OutgoingMessage(Protocol):
    """A message to publish: the end of a wait, or a change of a record."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> bytes: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]: ...


# The message of a row, the error that prevented it, or None where what it tells of is gone.
PreparedMessage = OutgoingMessage | Exception | None


class OutboxRow(Protocol):
    """A row of an outbox: a message that is to be published."""

    @property
    def outbox_id(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def record_key(self) -> str:
        """Rows with the same key are published in order."""


Row = TypeVar("Row", bound=OutboxRow)
# Sends a message; the inner awaitable ends when the broker has confirmed it.
PublishMessage = Callable[[OutgoingMessage], Awaitable[Awaitable[object]]]


class TopicBatch(Generic[Row]):
    """Publishes rows in order and records their results.

    Of each key, only the rows before its first failure are done; the rest is published again in
    order.
    """

    def __init__(self, publish: PublishMessage, suspects: Container[str]) -> None:
        self._publish = publish
        # Keys that were refused before. They are sent alone, so that others are not refused with
        # them.
        self._suspects = suspects
        self._handed: list[tuple[Row, asyncio.Future[object]]] = []
        self._failed: set[str] = set()
        self.published: list[Row] = []
        self.vanished: list[Row] = []
        self.refused: list[tuple[Row, BaseException]] = []
        self.trouble: BaseException | None = None

    async def run(self, pairs: Iterable[tuple[Row, PreparedMessage]]) -> None:
        """Publish the rows, as far as the topic accepts them."""
        for row, made in pairs:
            if row.record_key in self._failed:
                continue
            if made is None:
                self.vanished.append(row)
                continue
            try:
                await self._hand_over(row, made)
            except Exception as error:
                self._note(row, error)
                if self.trouble is not None:
                    break
        await self._confirm_all()

    async def _hand_over(self, row: Row, made: OutgoingMessage | Exception) -> None:
        if isinstance(made, Exception):
            raise made
        is_suspect = row.record_key in self._suspects
        if is_suspect:
            await self._confirm_all()
        self._handed.append((row, asyncio.ensure_future(await self._publish(made))))
        if is_suspect:
            await self._confirm_all()

    async def _confirm_all(self) -> None:
        handed, self._handed = self._handed, []
        if handed:
            await asyncio.wait([future for _, future in handed], timeout=CONFIRM_WITHIN)
        for row, future in handed:
            error = _error_of(future)
            if error is not None:
                self._note(row, error)
            elif row.record_key not in self._failed:
                self.published.append(row)

    def _note(self, row: Row, error: BaseException) -> None:
        self._failed.add(row.record_key)
        is_about_kafka = isinstance(error, KafkaError | OSError | TimeoutError)
        if is_about_kafka and not isinstance(error, TOO_LARGE):
            self.trouble = error
        else:
            self.refused.append((row, error))


def _error_of(future: asyncio.Future[object]) -> BaseException | None:
    if future.cancelled() or not future.done():
        future.cancel()
        return TimeoutError(f"not confirmed within {CONFIRM_WITHIN:g} s")
    return future.exception()
