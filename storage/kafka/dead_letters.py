"""Records that could not be handled, kept whole so that they can be tried again."""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg
import msgspec

from core.kafka.message import KafkaMessage
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter as listings show it; `record` is there where the whole was asked for."""

    letter_id: int
    topic: str
    partition: int
    offset: int
    size: int | None
    error: str
    attempts: int
    failed_at: float
    redriven_at: float | None
    record: KafkaMessage | None = None

    @property
    def settled(self) -> bool:
        """Whether it was handled after all."""
        return self.redriven_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters are meant; None leaves a filter off.

    `error` is part of the error's text, in any case. `redriven` means those that were handled after
    all, instead of the open ones.
    """

    topic: str | None = None
    error: str | None = None
    redriven: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetterSize:
    """A dead letter by its weight: what reading it whole will cost."""

    letter_id: int
    size: int


async def add(
    conn: Connection | Pool, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
) -> None:
    """Keep records with the error that each met."""
    rows = [
        (
            tenant,
            record.topic,
            record.partition,
            record.offset,
            record.key,
            _headers_text(record.headers),
            record.value,
            _storable(error),
        )
        for record, error in failed
    ]
    await conn.execute(Q["bury"], rows)


async def page(
    pool: Pool, tenant: int, chosen: DeadLetterFilter, after: int | None, limit: int
) -> ScanPage[DeadLetter, int]:
    """The next letters of a listing, newest first, among those that one look reads."""
    ends = await pool.fetch(Q["look_back_at_letters"], tenant, after, bounded_scan.SCAN_LIMIT - 1)
    looked_to = ends[0]["letter_id"] if len(ends) == 2 else None
    filters = (chosen.topic, chosen.error, chosen.redriven)
    rows = await pool.fetch(Q["list_letters"], tenant, *filters, after, limit, looked_to or 0)
    return ScanPage([_letter(row, row["size"]) for row in rows], looked_to)


async def read(pool: Pool, tenant: int, letter_ids: Sequence[int]) -> list[DeadLetter]:
    """These letters, whole."""
    rows = await pool.fetch(Q["read_letters"], tenant, list(letter_ids))
    return [_letter(row, len(row["payload"] or b""), whole=True) for row in rows]


async def upcoming(
    pool: Pool, tenant: int, chosen: DeadLetterFilter, after: int, limit: int
) -> ScanPage[DeadLetterSize, int]:
    """The open letters that come next among those that one look reads, oldest first.

    Their order is that of their topics.
    """
    ends = await pool.fetch(Q["look_ahead_at_letters"], tenant, after, bounded_scan.SCAN_LIMIT - 1)
    looked_to = ends[0]["letter_id"] if len(ends) == 2 else None
    filters = (chosen.topic, chosen.error)
    rows = await pool.fetch(Q["next_letters"], tenant, *filters, after, limit, looked_to)
    return ScanPage([DeadLetterSize(*row) for row in rows], looked_to)


async def count_upcoming(pool: Pool, tenant: int, chosen: DeadLetterFilter, after: int) -> int:
    """How many open letters come after this one."""
    count: int = await pool.fetchval(
        Q["count_next_letters"], tenant, chosen.topic, chosen.error, after, bounded_scan.SCAN_LIMIT
    )
    return count


async def read_sizes(pool: Pool, tenant: int, letter_ids: Sequence[int]) -> list[DeadLetterSize]:
    """Those of these letters that exist, in the order of their ids."""
    rows = await pool.fetch(Q["size_letters"], tenant, list(letter_ids))
    return [DeadLetterSize(*row) for row in rows]


async def mark_redriven(pool: Pool, tenant: int, letter_ids: Sequence[int]) -> None:
    """These were handled after all."""
    await pool.execute(Q["settle_letters"], tenant, list(letter_ids))


async def mark_failed(pool: Pool, tenant: int, errors: Sequence[tuple[int, str]]) -> None:
    """These failed again."""
    ids, texts = [letter_id for letter_id, _ in errors], [_storable(text) for _, text in errors]
    await pool.execute(Q["fail_letters"], tenant, ids, texts)


async def delete(pool: Pool, tenant: int, letter_id: int) -> bool:
    """Forget one; False if there was none."""
    return await pool.fetchval(Q["delete_letter"], tenant, letter_id) is not None


async def forget(pool: Pool, retention: float, limit: int) -> int:
    """Remove a batch that is past its time."""
    return len(await pool.fetch(Q["forget_letters"], retention, limit))


async def count(pool: Pool | Connection, tenant: int) -> dict[str, int]:
    """How many of a tenant are open, by topic."""
    return {
        row["topic"]: row["letters"]
        for row in await pool.fetch(Q["count_letters"], tenant, bounded_scan.SCAN_LIMIT)
    }


def _letter(row: asyncpg.Record, size: int | None, *, whole: bool = False) -> DeadLetter:
    record = (
        KafkaMessage(
            topic=row["topic"],
            partition=row["kafka_partition"],
            offset=row["kafka_offset"],
            value=row["payload"],
            key=row["record_key"],
            headers=_headers_of(row["headers"]),
        )
        if whole
        else None
    )
    return DeadLetter(
        letter_id=row["letter_id"],
        topic=row["topic"],
        partition=row["kafka_partition"],
        offset=row["kafka_offset"],
        size=size,
        error=row["error"],
        attempts=row["attempts"],
        failed_at=row["failed_at"],
        redriven_at=row["redriven_at"],
        record=record,
    )


Headers = tuple[tuple[str, bytes | None], ...]

_HEADERS = msgspec.json.Decoder(Headers)


def _headers_text(headers: Headers) -> str:
    """Names as they are, values in base64: they may be any bytes, or null."""
    return msgspec.json.encode(
        [(name.replace("\x00", "\ufffd"), raw) for name, raw in headers]
    ).decode()


def _headers_of(text: str) -> Headers:
    return _HEADERS.decode(text)


def _storable(text: str) -> str:
    # Postgres takes no NUL in text; an error may quote one.
    return text.replace("\x00", "\ufffd")[:2000]
