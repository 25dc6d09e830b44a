"""A rate limit that holds over every window: never more than so many starts in so many seconds."""

from collections import deque


class SlidingWindow:
    """Remembers the starts of one window."""

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self._window = window
        self._starts: deque[float] = deque()

    def wait(self, now: float) -> float:
        """Seconds until the next start is allowed; 0 if it is now."""
        if len(self._starts) < self.limit:
            return 0.0
        return max(0.0, self._starts[-self.limit] + self._window - now)

    def take(self, now: float) -> None:
        """Count one start. The caller has waited."""
        while self._starts and self._starts[0] + self._window <= now:
            self._starts.popleft()
        self._starts.append(now)

    def resize(self, limit: int) -> None:
        """Go on with another limit, without forgetting what was used of the old one."""
        self.limit = limit
