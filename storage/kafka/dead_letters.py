"""Dead letters: Kafka messages that could not be handled, stored whole to be redriven."""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg
import msgspec

from core.access.usage_counter import UsageCounter
from core.kafka.message import KafkaMessage
from core.shared.quotas import StoredKind
from storage.postgres import bounded_scan
from storage.postgres.bounded_scan import ScanPage
from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

MAX_ERROR_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter; listings leave out `message`."""

    letter_id: int
    topic: str
    partition: int
    offset: int
    size: int | None
    error: str
    attempts: int
    failed_at: float
    redriven_at: float | None
    message: KafkaMessage | None = None

    @property
    def settled(self) -> bool:
        return self.redriven_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """A filter of dead letters; None matches all.

    `error` is part of the error's text, in any case. `redriven` selects the redriven ones instead
    of the open ones.
    """

    topic: str | None = None
    error: str | None = None
    redriven: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetterSize:
    letter_id: int
    size: int


async def add(
    conn: Connection | Pool, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
) -> None:
    """Store messages, each with the error that it met."""
    rows = [
        (
            tenant,
            message.topic,
            message.partition,
            message.offset,
            message.key,
            _headers_text(message.headers),
            message.value,
            _storable(error)[:MAX_ERROR_CHARS],
        )
        for message, error in failed
    ]
    await conn.execute(Q["add_dead_letters"], rows)


def count_dead_letters(
    counter: UsageCounter, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
) -> None:
    """Count stored dead letters against the tenant's quotas."""
    size = sum(len(message.value or b"") + len(message.key or b"") for message, _ in failed)
    counter.add(tenant, StoredKind.DEAD_LETTERS, len(failed), size)


async def page(
    pool: Pool, tenant: int, chosen: DeadLetterFilter, after: int | None, limit: int
) -> ScanPage[DeadLetter, int]:
    """Read the next dead letters of a listing, newest first, within one bounded scan."""
    scanned_to = await bounded_scan.scan_end(pool, "dead_letter_scan_back", tenant, after)
    filters = (chosen.topic, chosen.error, chosen.redriven)
    rows = await pool.fetch(Q["list_dead_letters"], tenant, *filters, after, limit, scanned_to or 0)
    return ScanPage([msgspec.convert(dict(row), DeadLetter) for row in rows], scanned_to)


async def read(pool: Pool, tenant: int, letter_ids: Sequence[int]) -> list[DeadLetter]:
    """Read dead letters with their messages."""
    rows = await pool.fetch(Q["read_dead_letters"], tenant, list(letter_ids))
    return [_whole_letter(row) for row in rows]


async def upcoming(
    pool: Pool, tenant: int, chosen: DeadLetterFilter, after: int, limit: int
) -> ScanPage[DeadLetterSize, int]:
    """Read the sizes of the next open dead letters, oldest first, within one bounded scan.

    That is also the order of the messages on their topics.
    """
    scanned_to = await bounded_scan.scan_end(pool, "dead_letter_scan_ahead", tenant, after)
    filters = (chosen.topic, chosen.error)
    rows = await pool.fetch(Q["next_dead_letters"], tenant, *filters, after, limit, scanned_to)
    return ScanPage([DeadLetterSize(*row) for row in rows], scanned_to)


async def count_upcoming(pool: Pool, tenant: int, chosen: DeadLetterFilter, after: int) -> int:
    """Count the open dead letters after this one."""
    filters = (chosen.topic, chosen.error)
    count: int = await pool.fetchval(
        Q["count_next_dead_letters"], tenant, *filters, after, bounded_scan.SCAN_LIMIT
    )
    return count


async def read_sizes(pool: Pool, tenant: int, letter_ids: Sequence[int]) -> list[DeadLetterSize]:
    """Read the sizes of those dead letters that exist, in the order of their ids."""
    rows = await pool.fetch(Q["dead_letter_sizes"], tenant, list(letter_ids))
    return [DeadLetterSize(*row) for row in rows]


async def mark_redriven(pool: Pool, tenant: int, letter_ids: Sequence[int]) -> None:
    await pool.execute(Q["mark_dead_letters_redriven"], tenant, list(letter_ids))


async def mark_failed(pool: Pool, tenant: int, errors: Sequence[tuple[int, str]]) -> None:
    ids = [letter_id for letter_id, _ in errors]
    texts = [_storable(text)[:MAX_ERROR_CHARS] for _, text in errors]
    await pool.execute(Q["mark_dead_letters_failed"], tenant, ids, texts)


async def delete(pool: Pool, tenant: int, letter_id: int) -> bool:
    return await pool.fetchval(Q["delete_dead_letter"], tenant, letter_id) is not None


async def forget(pool: Pool, retention: float, limit: int) -> int:
    """Delete a batch that is past its retention; return how many."""
    return len(await pool.fetch(Q["forget_dead_letters"], retention, limit))


async def count(pool: Pool | Connection, tenant: int) -> dict[str, int]:
    """Count a tenant's open dead letters by topic."""
    return {
        row["topic"]: row["letters"]
        for row in await pool.fetch(Q["count_dead_letters"], tenant, bounded_scan.SCAN_LIMIT)
    }


def _whole_letter(row: asyncpg.Record) -> DeadLetter:
    message = {**row, "headers": _HEADERS.decode(row["headers"])}
    return msgspec.convert({**row, "message": message}, DeadLetter)


Headers = tuple[tuple[str, bytes | None], ...]

_HEADERS = msgspec.json.Decoder(Headers)


def _headers_text(headers: Headers) -> str:
    """Encode header values in base64: they may be any bytes, or null."""
    return msgspec.json.encode([(_storable(name), raw) for name, raw in headers]).decode()


def _storable(text: str) -> str:
    # Postgres text cannot contain NUL; an error may quote one.
    return text.replace("\x00", "\ufffd")
