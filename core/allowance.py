"""A rate limit that holds over every window: never more than so many starts in so many seconds."""

from collections import deque


class Allowance:
    """Remembers the latest starts, as many as one window may have."""

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self._window = window
        self._starts: deque[float] = deque(maxlen=limit)

    def wait(self, now: float) -> float:
        """Seconds until the next start is allowed; 0 if it is now."""
        if len(self._starts) < self.limit:
            return 0.0
        return max(0.0, self._starts[0] + self._window - now)

    def take(self, now: float) -> None:
        """Count one start. The caller has waited."""
        self._starts.append(now)

    def resize(self, limit: int) -> None:
        """Go on with another limit, without forgetting what was used of the old one."""
        if limit != self.limit:
            self.limit = limit
            self._starts = deque(self._starts, maxlen=limit)
