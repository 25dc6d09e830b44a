"""Limits how many rows a query reads where no index serves its filter."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from storage.postgres.pool import Pool
from storage.postgres.queries import Q

T = TypeVar("T")
K = TypeVar("K")

SCAN_LIMIT = 100_000
"""The most rows that one scan reads, however few of them match."""


@dataclass(frozen=True, slots=True)
class ScanPage(Generic[T, K]):
    """The rows that one scan found, in order."""

    items: list[T]
    scanned_to: K | None = None
    """The last key that was read if unread keys follow, else None."""


async def scan_end(conn: Pool, query: str, *place: Any) -> Any:
    """Return the last key that a scan from this place reads if more keys follow, else None.

    The query returns the key at an offset and the next one; the offset is its last parameter.
    """
    keys = await conn.fetch(Q[query], *place, SCAN_LIMIT - 1)
    return keys[0][0] if len(keys) == 2 else None


SAMPLE_BYTES = 64 * 1024 * 1024
"""The most bytes of a table that a count reads."""


def sample_percent(size: int) -> float:
    """Return which percentage of a table of this size is counted."""
    return 100.0 if size <= SAMPLE_BYTES else 100.0 * SAMPLE_BYTES / size


def scaled(count: int, percent: float) -> int:
    """Extrapolate a count from a sample to the whole table."""
    return round(count * 100.0 / percent)
