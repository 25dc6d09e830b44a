"""Reads messages that aiokafka cannot decode from the raw bytes of their batches.

Kafka allows any bytes in the name of a header. aiokafka raises if they are not UTF-8, and never
gets past that batch. Here such a name is decoded with replacement characters. This is slow and uses
internals of aiokafka, so it is for such messages only.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.errors import LeaderNotAvailableError, NoError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.legacy_records import _LegacyRecordBatchPy

MAX_BYTES = 1024 * 1024  # a broker sends at least one batch, regardless of its size


async def fetch_tolerantly(
    consumer: AIOKafkaConsumer, place: TopicPartition, offset: int
) -> tuple[list[Any], int]:
    """Fetch the next messages of a partition, and the offset after them.

    Raises:
        KafkaError: They cannot be fetched now, or are corrupt.
    """
    client = consumer._client  # noqa: SLF001 - the only connection that is open
    leader = client.cluster.leader_for_partition(place)
    if leader is None or leader < 0:
        raise LeaderNotAvailableError(place)
    asked = [(place.topic, [(place.partition, offset, MAX_BYTES)])]
    reply = await client.send(leader, FetchRequest(500, 1, MAX_BYTES, READ_COMMITTED, asked))
    ((_, ((_, code, *_, aborted, raw),)),) = _without_replica(reply)
    if for_code(code) is not NoError:
        raise for_code(code)(place)
    return decode_batches(place, offset, aborted, raw)


def decode_batches(
    place: TopicPartition, offset: int, aborted: list[tuple[int, int]] | None, raw: bytes
) -> tuple[list[Any], int]:
    """Decode the messages from `offset` on, without those of aborted transactions."""
    records = PartitionRecords(
        place, _Batches(raw), aborted, offset, None, None, True, READ_COMMITTED
    )
    return list(records), records.next_fetch_offset


def _without_replica(reply: Any) -> Any:
    """Remove the preferred replica, which replies contain from version 11 on."""
    if reply.API_VERSION < 11:
        return reply.topics
    return [
        (topic, [(*part[:-2], part[-1]) for part in partitions])
        for topic, partitions in reply.topics
    ]


class _Batches:
    """The batches of a fetch, with the interface of aiokafka's class."""

    def __init__(self, raw: bytes) -> None:
        self._left = list(_slices(memoryview(raw)))
        self._left.reverse()

    def has_next(self) -> bool:
        return bool(self._left)

    def next_batch(self) -> Any:
        raw = self._left.pop()
        magic = raw[_MAGIC]
        return _LegacyRecordBatchPy(raw, magic) if magic < 2 else _LenientBatch(raw)


_LENGTH, _OVERHEAD, _MAGIC = 8, 12, 16  # the same offsets in all versions of the format


def _slices(rest: memoryview) -> Iterator[memoryview]:
    while len(rest) > _MAGIC:
        size = _OVERHEAD + int.from_bytes(rest[_LENGTH:_OVERHEAD], "big")
        if size > len(rest):
            return  # the broker has truncated this batch
        yield rest[:size]
        rest = rest[size:]


class _LenientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    """A batch whose header names may be any bytes."""

    _buffer: bytearray

    def __next__(self) -> Any:
        if not isinstance(self._buffer, _LenientBytes):
            self._maybe_uncompress()
            self._buffer = _LenientBytes(self._buffer)
        return super().__next__()


class _LenientBytes(bytearray):
    """Bytes that can always be decoded."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return found if isinstance(found, int) else _LenientBytes(found)

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)
