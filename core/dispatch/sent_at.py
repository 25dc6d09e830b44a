"""Formats times for deliveries in ISO 8601 and UTC.

Each delivery needs one, and most are in the same few seconds, so formatted seconds are cached.
"""

from datetime import UTC, datetime
from functools import lru_cache

_MILLION = 1_000_000


def to_millis(at: float) -> str:
    second, micros = divmod(round(at * _MILLION), _MILLION)
    return f"{_second(second)}.{micros // 1_000:03}Z"


def to_micros(at: float) -> str:
    second, micros = divmod(round(at * _MILLION), _MILLION)
    return f"{_second(second)}.{micros:06}Z"


@lru_cache(256)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()[:19]
