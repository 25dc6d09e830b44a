"""Rate limits that hold over every window, not only from one full minute to the next."""

import math
from collections import deque

MINUTE = 60.0
SPREAD = 60
"""From this limit on, starts are spaced; below it, they may come together."""
RESERVE = 1.015
"""How much wider than needed starts are spaced."""
CATCH_UP = 0.25
"""Seconds by which a start may be late. The minute has 0.9 in reserve: more would break it."""
SECOND = 1.002
"""A second, and the time by which two starts may move closer on their way to the target."""
_QUARTERS = 4


class SlidingWindow:
    """Allows at most `limit` starts in any window of so many seconds."""

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self._window = window
        self._starts: deque[float] = deque()

    def wait(self, now: float) -> float:
        """Return the seconds until the next start is allowed."""
        if len(self._starts) < self.limit:
            return 0.0
        return max(0.0, self._starts[-self.limit] + self._window - now)

    def take(self, now: float) -> None:
        """Count one start, for which the caller has waited."""
        while self._starts and self._starts[0] + self._window <= now:
            self._starts.popleft()
        self._starts.append(now)

    def resize(self, limit: int) -> None:
        """Change the limit. Starts under the old limit still count."""
        self.limit = limit


class PacedLimiter:
    """Allows at most `limit` starts in any minute, and spreads them evenly.

    Three rules. A minute: starts are counted in quarters of a second, which bounds the memory, and
    a quarter counts until all of it is a minute old. Spacing: from `SPREAD` a minute on, starts are
    spaced evenly, a little wider than needed; a start that is a little late may be caught up on,
    unused starts are lost. A second: no second has more than its share, whatever there is to catch
    up on. Times are of a monotonic clock.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit: int | None = None
        # [quarter, starts in it], of the last minute.
        self._counts: deque[list[int]] = deque()
        self._total = 0
        self._last = -math.inf
        # When the last start would have been, had none been late.
        self._slot = -math.inf
        self._interval = 0.0
        self._recent: deque[float] = deque(maxlen=0)
        self._not_before = -math.inf
        self.resize(limit)

    def wait(self, now: float) -> float:
        """Return the seconds until the next start is allowed."""
        if self.limit is None:
            return 0.0
        return max(0.0, self._earliest(self.limit, now) - now)

    def take(self, now: float) -> None:
        """Count one start, for which the caller has waited."""
        self._forget(now)
        quarter = int(now * _QUARTERS)
        if self._counts and self._counts[-1][0] == quarter:
            self._counts[-1][1] += 1
        else:
            self._counts.append([quarter, 1])
        self._total += 1
        self._last = now
        slot = self._slot + self._interval
        self._slot = slot if now - slot <= CATCH_UP else now
        self._recent.append(now)

    def resize(self, limit: int | None) -> None:
        """Change or remove the limit. Starts under the old limit still count."""
        if limit == self.limit:
            return
        self.limit = limit
        spread = 0 if limit is None or limit < SPREAD else limit
        self._interval = MINUTE / spread * RESERVE if spread else 0.0
        # The starts of one second are remembered one by one. Starts under the old limit may have
        # been more, or not remembered: their second has to pass first.
        self._recent = deque(maxlen=math.ceil(spread / MINUTE))
        self._not_before = self._last + SECOND if spread else -math.inf

    def _earliest(self, limit: int, now: float) -> float:
        earliest = self._not_before
        if self._interval:
            earliest = max(earliest, self._slot + self._interval)
            if len(self._recent) == self._recent.maxlen:
                earliest = max(earliest, self._recent[0] + SECOND)
        self._forget(now)
        if self._total >= limit:
            earliest = max(earliest, self._old_at(self._total - limit + 1))
        return earliest

    def _forget(self, now: float) -> None:
        counts = self._counts
        while counts and (counts[0][0] + 1) / _QUARTERS + MINUTE <= now:
            self._total -= counts.popleft()[1]

    def _old_at(self, starts: int) -> float:
        """Return when so many of the counted starts are a minute old."""
        quarter, counts = 0, iter(self._counts)
        while starts > 0:
            quarter, count = next(counts)
            starts -= count
        return (quarter + 1) / _QUARTERS + MINUTE
