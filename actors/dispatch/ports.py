"""What a dispatcher needs from outside."""

from collections.abc import Sequence
from typing import Protocol

from core.dispatch.attempt import Sent, Step
from core.dispatch.claim import Claimed
from core.dispatch.job import JobKey
from core.dispatch.target import Site
from storage.dispatch.job_queue import Result


class Queue(Protocol):
    """Postgres as a dispatcher sees it."""

    async def claim(self, keys: Sequence[JobKey]) -> list[Claimed]:
        """Take these jobs; those that were won."""
        ...

    async def finish(self, results: Sequence[Result]) -> dict[JobKey, float]:
        """Write what became of them; those that were kept, and when they go again."""
        ...


class World(Protocol):
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


class Listener(Protocol):
    """Whoever wants to know how deliveries go. Calls are short and do not wait."""

    def heard(self, job: Claimed, step: Step, sent: Sent | None) -> None:
        """This became of a job, and is written."""
        ...

    def left_alone(self, site: Site) -> None:
        """A target fails too often and gets nothing for a while."""
        ...
