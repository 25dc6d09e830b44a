"""A rate of so many starts a minute that holds over every window, and spreads what it allows.

Three rules. Over any minute: starts are counted in quarters of a second, so that it is bounded
what has to be remembered, and a quarter counts until all of it is old. From `SPREAD` a minute on,
starts are spaced evenly, a little wider than needed; whoever comes a little late may catch up on
what it missed, and what nobody came for is lost. And no second has more than its share, however
much there is to catch up on.
"""

import math
from collections import deque

MINUTE = 60.0
SPREAD = 60
"""From this limit on, starts are spaced; below it they may come together."""
RESERVE = 1.015
"""How much wider than needed they are spaced."""
CATCH_UP = 0.25
"""Seconds by which one may be late. The minute has 0.9 in reserve: with more, it would break."""
SECOND = 1.002
"""A second, and the time by which two starts may move closer on their way."""
_QUARTERS = 4


class PacedLimiter:
    """When the next may start. Times are of a clock that never goes back."""

    def __init__(self, limit: int | None) -> None:
        self.limit: int | None = None
        # [quarter, starts in it], of the last minute.
        self._counts: deque[list[int]] = deque()
        self._total = 0
        self._last = -math.inf
        # Where the last start would stand had nobody been late.
        self._slot = -math.inf
        self._interval = 0.0
        self._recent: deque[float] = deque(maxlen=0)
        self._not_before = -math.inf
        self.resize(limit)

    def wait(self, now: float) -> float:
        """Seconds until the next start is allowed; 0 if it is now."""
        if self.limit is None:
            return 0.0
        return max(0.0, self._earliest(self.limit, now) - now)

    def take(self, now: float) -> None:
        """Count one start. The caller has waited."""
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
        """Go on with another limit, or with none. What was used of the old one stays used."""
        if limit == self.limit:
            return
        self.limit = limit
        spread = 0 if limit is None or limit < SPREAD else limit
        self._interval = MINUTE / spread * RESERVE if spread else 0.0
        # Starts of one second are remembered one by one, as many as it may have. Those from before
        # may have been more, or not remembered: their second passes first.
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
        """Let go of the quarters all of which is a minute old."""
        counts = self._counts
        while counts and (counts[0][0] + 1) / _QUARTERS + MINUTE <= now:
            self._total -= counts.popleft()[1]

    def _old_at(self, starts: int) -> float:
        """When so many of those counted are a minute old."""
        quarter, counts = 0, iter(self._counts)
        while starts > 0:
            quarter, count = next(counts)
            starts -= count
        return (quarter + 1) / _QUARTERS + MINUTE
