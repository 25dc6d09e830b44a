"""Who was not let in, and why: counted always, logged a line a second at most for each source."""

import time
from collections.abc import Callable, Iterator

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from core.shared.denial import Denial

log = structlog.get_logger("access")

LOG_EVERY = 1.0
"""Seconds between two lines about the same source."""
MAX_SOURCES = 100
"""Sources told apart at a time; what comes from more is told as one."""
MAX_KEYS = 1_000
"""Keys counted apart; what is denied to more is counted as one."""
MANY = "many"


class _Line:
    """What was denied to one source since it was last told of."""

    __slots__ = ("count", "told_at")

    def __init__(self) -> None:
        self.count = 0
        self.told_at = float("-inf")


class Denials:
    """Answers 401 and 403 of one replica."""

    def __init__(self, replica: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._replica = replica
        self._monotonic = monotonic
        self._reasons: dict[str, int] = {}
        self._keys: dict[tuple[int, str, str], int] = {}
        self._lines: dict[tuple[str, str, str], _Line] = {}

    def note(self, denial: Denial, source: str) -> None:
        """Count one; tell of it unless this source was told of a moment ago."""
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
        self._tell(place, line)

    def flush_log(self) -> None:
        """Tell of what came after a source's last line; called every few seconds."""
        for place, line in self._lines.items():
            self._tell(place, line)
        self._forget_quiet()

    def families(self, tenant: int | None) -> Iterator[Metric]:
        """By reason; by key for the tenant whose key it is."""
        reasons = CounterMetricFamily(
            "muster_http_denied",
            "Requests answered 401 or 403, by reason.",
            labels=["replica", "reason"],
        )
        for reason, count in sorted(self._reasons.items()):
            reasons.add_metric([self._replica, reason], count)
        yield reasons
        keys = CounterMetricFamily(
            "muster_key_denied",
            "Requests answered 401 or 403 that named a key of the asking tenant, by its prefix.",
            labels=["replica", "key", "reason"],
        )
        for (whose, key, reason), count in sorted(self._keys.items()):
            if whose == tenant:
                keys.add_metric([self._replica, key, reason], count)
        yield keys

    def _count_key(self, denial: Denial) -> None:
        named = (denial.tenant, denial.key, denial.reason)
        if named not in self._keys and len(self._keys) >= MAX_KEYS:
            named = (denial.tenant, MANY, denial.reason)
            if named not in self._keys and len(self._keys) >= 2 * MAX_KEYS:
                return
        self._keys[named] = self._keys.get(named, 0) + 1

    def _tell(self, place: tuple[str, str, str], line: _Line) -> None:
        now = self._monotonic()
        if not line.count or now - line.told_at < LOG_EVERY:
            return
        reason, key, source = place
        named = {"prefix": key} if key else {}
        log.warning("request.denied", reason=reason, source=source, count=line.count, **named)
        line.count, line.told_at = 0, now

    def _forget_quiet(self) -> None:
        now = self._monotonic()
        quiet = [
            place
            for place, line in self._lines.items()
            if not line.count and now - line.told_at >= LOG_EVERY
        ]
        for place in quiet:
            del self._lines[place]
