"""Measures for how long work has been waiting without any of it getting done."""

import time
from collections.abc import Callable

# What nobody has tried again for so long is not waiting any more.
FORGET_AFTER = 5.0


class WorkProgress:
    """One kind of work. Who does it says when some waits, and when some was done."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._waiting_since: float | None = None
        self._given_up_at: float | None = None

    def waits(self) -> None:
        """There is work to do, or it has to be tried again."""
        if self._has_given_up:
            self._waiting_since = None
        self._given_up_at = None
        if self._waiting_since is None:
            self._waiting_since = self._monotonic()

    def done(self) -> None:
        """Some of it was done, or there is none."""
        self._waiting_since = self._given_up_at = None

    def given_up(self) -> None:
        """Nobody waits for it any more, though it was not done."""
        if self._waiting_since is not None:
            self._given_up_at = self._monotonic()

    @property
    def stalled_seconds(self) -> float:
        """Seconds since work has been waiting and none has been done; 0 without any."""
        if self._waiting_since is None or self._has_given_up:
            return 0.0
        return self._monotonic() - self._waiting_since

    @property
    def _has_given_up(self) -> bool:
        return (
            self._given_up_at is not None and self._monotonic() > self._given_up_at + FORGET_AFTER
        )
