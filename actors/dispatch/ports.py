"""What a dispatcher needs from outside."""

from collections.abc import Sequence
from typing import Protocol

from core.dispatch.attempt import DeliveryAttempt, JobTransition
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey
from core.dispatch.target import TargetKey
from storage.dispatch.job_queue import JobResult


class ClaimQueue(Protocol):
    """Postgres as a dispatcher sees it."""

    async def claim(self, keys: Sequence[JobKey]) -> list[ClaimedJob]:
        """Take these jobs; those that were won."""
        ...

    async def finish(self, results: Sequence[JobResult]) -> dict[JobKey, float]:
        """Write what became of them; those that were kept, and when they go again."""
        ...


class DispatchEnvironment(Protocol):
    """Time and chance."""

    def now(self) -> float:
        """The database's time."""
        ...

    def monotonic(self) -> float:
        """A local clock that never jumps."""
        ...

    def chance(self) -> float:
        """A number in [0, 1)."""
        ...


class DeliveryListener(Protocol):
    """Whoever wants to know how deliveries go. Calls are short and do not wait."""

    def job_finished(
        self, job: ClaimedJob, step: JobTransition, sent: DeliveryAttempt | None
    ) -> None:
        """This became of a job, and is written."""
        ...

    def breaker_opened(self, target_key: TargetKey) -> None:
        """A target fails too often and gets nothing for a while."""
        ...
