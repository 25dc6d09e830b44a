"""Estimates the offset of a remote clock from the local monotonic clock by timed readings.

A reading with a round trip of `r` seconds is accurate to `r / 2`. The reading of the last minute
with the shortest round trip counts. A reading that contradicts it proves that the remote clock was
moved, or belongs to another server: then all earlier readings are dropped.
"""

from collections import deque
from typing import NamedTuple

KEEP_SECONDS = 60.0
MAX_ROUND_TRIP = 0.2
# How far two clocks may drift apart within KEEP_SECONDS, with a wide margin.
DRIFT = 0.05


class Reading(NamedTuple):
    """One measurement: its end on the local clock, the offset, and the round trip in seconds."""

    at: float
    offset: float
    round_trip: float


class ClockOffset:
    """Keeps the readings of the last minute and derives the offset from the best one."""

    def __init__(self, guess: float) -> None:
        self.value = guess
        self.measured = False
        self._readings: deque[Reading] = deque()

    def add(self, before: float, after: float, remote: float) -> bool:
        """Take a reading made between two local times; return True if the remote clock was moved.

        A reading that took longer than MAX_ROUND_TRIP is too inaccurate: it counts only if there is
        no better one, or if it contradicts the others.
        """
        new = Reading(after, remote - (before + after) / 2, after - before)
        is_moved = self.measured and self._contradicts(new)
        if is_moved:
            self._readings.clear()
        while self._readings and self._readings[0].at < after - KEEP_SECONDS:
            self._readings.popleft()
        if new.round_trip <= MAX_ROUND_TRIP or is_moved or not self.measured:
            self._readings.append(new)
        self.measured = True
        if self._readings:
            self.value = min(self._readings, key=lambda reading: reading.round_trip).offset
        return is_moved

    def _contradicts(self, new: Reading) -> bool:
        best = min(self._readings, key=lambda reading: reading.round_trip, default=None)
        error = DRIFT + new.round_trip / 2 + (best.round_trip / 2 if best else MAX_ROUND_TRIP)
        return abs(new.offset - self.value) > error
