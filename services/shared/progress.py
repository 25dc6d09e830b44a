"""Measures for how long work has made no progress."""

import time
from collections.abc import Callable

# Work that was given up and not tried again for this long no longer counts as waiting.
FORGET_AFTER = 5.0


class WorkProgress:
    """The progress of one kind of work, as reported by the code that does it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._waiting_since: float | None = None
        self._given_up_at: float | None = None

    def waits(self) -> None:
        """Report that there is work to do or to try again."""
        if self._has_given_up:
            self._waiting_since = None
        self._given_up_at = None
        if self._waiting_since is None:
            self._waiting_since = self._monotonic()

    def done(self) -> None:
        """Report that some work was done, or that there is none."""
        self._waiting_since = self._given_up_at = None

    def given_up(self) -> None:
        """Report that no caller waits for the work any more, though it was not done."""
        if self._waiting_since is not None:
            self._given_up_at = self._monotonic()

    @property
    def stalled_seconds(self) -> float:
        """Return for how many seconds work has waited without progress; 0 if none waits."""
        if self._waiting_since is None or self._has_given_up:
            return 0.0
        return self._monotonic() - self._waiting_since

    @property
    def _has_given_up(self) -> bool:
        return (
            self._given_up_at is not None and self._monotonic() > self._given_up_at + FORGET_AFTER
        )
