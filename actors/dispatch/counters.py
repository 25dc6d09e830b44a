"""Counters of a dispatch pool: since its start, and for the last minutes."""

from collections import deque
from collections.abc import Callable
from typing import Any

from core.dispatch.attempt import AttemptStatus, DeliveryAttempt, JobTransition
from core.dispatch.job import JobStatus

MINUTE = 60.0
WINDOWS = (5, 30)


class DispatchCounters:
    """Totals since the start, and counts for each of the last thirty minutes."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.completed = self.failed = self.retried = self.deferred = self.expired = 0
        self.seconds = 0.0
        self.sends = 0
        # Each entry: the minute, the completed jobs, the failed jobs.
        self._minutes: deque[list[int]] = deque(maxlen=max(WINDOWS))

    def count(self, step: JobTransition, sent: DeliveryAttempt | None) -> None:
        """Count the result of one job."""
        if sent is not None:
            self.sends += 1
            self.seconds += sent.seconds
        match step.status:
            case JobStatus.COMPLETED:
                self.completed += 1
                self._minute()[1] += 1
            case JobStatus.ERROR:
                self.failed += 1
                self._minute()[2] += 1
            case JobStatus.EXPIRED:
                self.expired += 1
            case _ if sent is None:
                pass  # the job was put back
            case _ if sent.status is AttemptStatus.DEFERRED:
                self.deferred += 1
            case _:
                self.retried += 1

    def snapshot(self) -> dict[str, Any]:
        return {
            "completed": self.completed,
            "failed": self.failed,
            "retried": self.retried,
            "deferred": self.deferred,
            "expired": self.expired,
            "sends": self.sends,
            "seconds": self.seconds,
            "windows": {str(minutes): self._window(minutes) for minutes in WINDOWS},
        }

    def _minute(self) -> list[int]:
        minute = int(self._monotonic() / MINUTE)
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append([minute, 0, 0])
        return self._minutes[-1]

    def _window(self, minutes: int) -> dict[str, int]:
        since = int(self._monotonic() / MINUTE) - minutes
        counted = [one for one in self._minutes if one[0] > since]
        return {
            "completed": sum(one[1] for one in counted),
            "failed": sum(one[2] for one in counted),
        }
