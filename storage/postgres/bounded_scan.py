"""How far one look goes where no index serves what is looked for."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")

SCAN_LIMIT = 100_000
"""Rows that one look reads at most, however few of them are what is looked for."""


@dataclass(frozen=True, slots=True)
class ScanPage(Generic[T, K]):
    """What a look found, in order."""

    items: list[T]
    scanned_to: K | None = None
    """The last key it read, where more lie behind it that it did not read."""


SAMPLE_BYTES = 64 * 1024 * 1024
"""Bytes of a table that a count reads at most."""


def sample_percent(size: int) -> float:
    """Return which part of a table of this size is counted, in percent."""
    return 100.0 if size <= SAMPLE_BYTES else 100.0 * SAMPLE_BYTES / size


def scaled(count: int, percent: float) -> int:
    """Return how many there are in all, if so many were counted in a part."""
    return round(count * 100.0 / percent)
