"""Denied requests: all are counted; each source is logged once a second at most."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from prometheus_client.metrics_core import Metric

from core.shared.errors import Denial
from telemetry.families import counter

log = structlog.get_logger("access")

LOG_EVERY = 1.0
"""Seconds between two log lines about the same source."""
MAX_SOURCES = 100
"""Sources logged apart at a time; further ones are logged as one."""
MAX_KEYS = 1_000
"""Keys counted apart; further ones are counted as one."""
MANY = "many"


@dataclass(slots=True)
class _Line:
    count: int = 0
    logged_at: float = float("-inf")


class Denials:
    """Counts and logs the 401 and 403 responses of one replica."""

    def __init__(self, replica: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._replica = replica
        self._monotonic = monotonic
        self._reasons: dict[str, int] = {}
        self._keys: dict[tuple[int, str, str], int] = {}
        self._lines: dict[tuple[str, str, str], _Line] = {}

    def note(self, denial: Denial, source: str) -> None:
        """Count a denial, and log it unless this source was logged a moment ago."""
        self._reasons[denial.reason] = self._reasons.get(denial.reason, 0) + 1
        if denial.key:
            self._count_key(denial)
        place = (denial.reason, denial.key, source)
        if place not in self._lines and len(self._lines) >= MAX_SOURCES:
            self._forget_quiet()
            if len(self._lines) >= MAX_SOURCES:
                place = (denial.reason, "", MANY)
        line = self._lines.setdefault(place, _Line())
        line.count += 1
        self._log(place, line)

    def flush_log(self) -> None:
        """Log the denials since each source's last log line; called every few seconds."""
        for place, line in self._lines.items():
            self._log(place, line)
        self._forget_quiet()

    def families(self, tenant: int | None) -> Iterator[Metric]:
        """Yield denials by reason, and by key for the keys of the asking tenant."""
        yield counter(
            "muster_http_denied",
            "Requests answered 401 or 403, by reason.",
            ["replica", "reason"],
            [([self._replica, reason], count) for reason, count in sorted(self._reasons.items())],
        )
        yield counter(
            "muster_key_denied",
            "Requests answered 401 or 403 that named a key of the asking tenant, by its prefix.",
            ["replica", "key", "reason"],
            [
                ([self._replica, key, reason], count)
                for (owner, key, reason), count in sorted(self._keys.items())
                if owner == tenant
            ],
        )

    def _count_key(self, denial: Denial) -> None:
        named = (denial.tenant, denial.key, denial.reason)
        if named not in self._keys and len(self._keys) >= MAX_KEYS:
            named = (denial.tenant, MANY, denial.reason)
            if named not in self._keys and len(self._keys) >= 2 * MAX_KEYS:
                return
        self._keys[named] = self._keys.get(named, 0) + 1

    def _log(self, place: tuple[str, str, str], line: _Line) -> None:
        now = self._monotonic()
        if not line.count or now - line.logged_at < LOG_EVERY:
            return
        reason, key, source = place
        named = {"prefix": key} if key else {}
        log.warning("request.denied", reason=reason, source=source, count=line.count, **named)
        line.count, line.logged_at = 0, now

    def _forget_quiet(self) -> None:
        now = self._monotonic()
        for place, line in [*self._lines.items()]:
            if not line.count and now - line.logged_at >= LOG_EVERY:
                del self._lines[place]
