"""Instants in ISO 8601, in UTC, as headers and bodies of deliveries have them.

One is written for each delivery, and most fall into the same few seconds.
"""

from datetime import UTC, datetime
from functools import lru_cache

_MILLION = 1_000_000


def to_millis(at: float) -> str:
    """To the millisecond."""
    second, micros = divmod(round(at * _MILLION), _MILLION)
    return f"{_second(second)}.{micros // 1_000:03}Z"


def to_micros(at: float) -> str:
    """To the microsecond."""
    second, micros = divmod(round(at * _MILLION), _MILLION)
    return f"{_second(second)}.{micros:06}Z"


@lru_cache(256)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()[:19]
