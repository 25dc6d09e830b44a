"""A circuit breaker: stops calls to a target that fails, and probes when to resume.

Too many failures among the last calls open a closed breaker. After a pause, one call at a time
probes the target: a failure opens the breaker for twice as long, several successes in a row close
it. The result of a call that began before the last change of state is ignored.
"""

from collections import deque
from enum import StrEnum
from typing import Any

WINDOW = 100
MIN_CALLS = 10
FAILURE_SHARE = 0.5
"""The share of failures in the window that opens the breaker."""
FIRST_PAUSE, MAX_PAUSE = 5.0, 60.0
SUCCESSES_TO_CLOSE = 3
"""Successes in a row that close a half-open breaker."""


class BreakerState(StrEnum):
    """Whether calls are allowed: all, none, or one at a time."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class Breaker:
    """The circuit breaker of one target. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self.used_at = 0.0
        """When a call last began or ended, so that idle breakers can be removed."""
        self._successes = self._failures = self._refusals = self._openings = 0
        self._epoch = 0
        self.reset()

    @property
    def state(self) -> BreakerState:
        """Return the state; an open breaker becomes half-open only when a probe begins."""
        return self._state

    def allows(self, now: float) -> bool:
        """Return whether a call may begin now."""
        if self._state is BreakerState.CLOSED:
            return True
        if self._state is BreakerState.HALF_OPEN:
            allowed = not self._is_probing
        else:
            allowed = now >= self._until
        self._refusals += not allowed
        return allowed

    def opens_at(self, now: float) -> float | None:
        """Return when an open breaker allows a probe; None if no time has to pass."""
        if self._state is BreakerState.OPEN and now < self._until:
            return self._until
        return None

    def begin_attempt(self, now: float) -> int:
        """Begin an allowed call; pass the returned ticket to `record` or `release`."""
        self.used_at = now
        if self._state is BreakerState.OPEN:
            self._turn(BreakerState.HALF_OPEN)
            self._in_a_row = 0
        self._is_probing = self._state is BreakerState.HALF_OPEN
        return self._epoch

    def record(self, ok: bool, now: float, ticket: int | None = None) -> None:
        """Record the result of a call. Without a ticket it counts as a current call."""
        self.used_at = now
        self._successes += ok
        self._failures += not ok
        if self._is_over(ticket):
            return
        if self._state is BreakerState.CLOSED:
            self._remember(ok, now)
        elif self._state is BreakerState.HALF_OPEN:
            self._is_probing = False
            self._tried(ok, now)

    def release(self, ticket: int | None = None) -> None:
        """End a call that was not made or whose result does not count."""
        if not self._is_over(ticket):
            self._is_probing = False

    def reset(self) -> None:
        """Close the breaker and forget the last calls."""
        self._turn(BreakerState.CLOSED)
        self._calls: deque[bool] = deque(maxlen=WINDOW)
        self._failed = 0
        self._pause = FIRST_PAUSE
        self._until = 0.0
        self._is_probing = False
        self._in_a_row = 0

    def snapshot(self) -> dict[str, Any]:
        """Return counts: `successful` to `opened` are totals, the others are of the window."""
        buffered = len(self._calls)
        return {
            "state": self._state.value,
            "successful": self._successes,
            "failed": self._failures,
            "refused": self._refusals,
            "opened": self._openings,
            "buffered": buffered,
            "buffer_size": WINDOW,
            "failure_rate": self._failed / buffered if buffered else 0.0,
            "open_until": self._until if self._state is BreakerState.OPEN else None,
        }

    def _is_over(self, ticket: int | None) -> bool:
        return ticket is not None and ticket != self._epoch

    def _turn(self, state: BreakerState) -> None:
        self._state = state
        self._epoch += 1

    def _remember(self, ok: bool, now: float) -> None:
        if len(self._calls) == WINDOW:
            self._failed -= not self._calls[0]
        self._calls.append(ok)
        self._failed += not ok
        if len(self._calls) >= MIN_CALLS and self._failed >= FAILURE_SHARE * len(self._calls):
            self._open(now)

    def _tried(self, ok: bool, now: float) -> None:
        if not ok:
            self._pause = min(self._pause * 2, MAX_PAUSE)
            self._open(now)
            return
        self._in_a_row += 1
        if self._in_a_row >= SUCCESSES_TO_CLOSE:
            self.reset()

    def _open(self, now: float) -> None:
        self._turn(BreakerState.OPEN)
        self._openings += 1
        self._is_probing = False
        self._until = now + self._pause
