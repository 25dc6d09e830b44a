"""Jobs that were taken and wait for their start: for a place, and for the pool's pace.

Some are taken a little ahead, as many as find a place within moments, so that a place that becomes
free need not wait for Postgres. None is held for long: a job is ours for a time only.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.dispatch.ports import DispatchEnvironment
from core.dispatch.claim import ClaimedJob
from core.shared.rate_limit import PacedLimiter

MAX_CLAIM = 500
MAX_BYTES = 67_108_864
# A job may be taken so many seconds before the pace lets it go, or before it finds a place.
CLAIM_AHEAD = 0.25
SHORT_DELIVERY = 0.05
MAX_WAIT = 5.0
# How much a delivery weighs in what is usual.
_WEIGHT = 0.05


@dataclass(slots=True)
class PoolLimits:
    """What a pool may do now; changed while it runs."""

    concurrency: int = 10
    rate_limit: int | None = None
    is_active: bool = True
    is_shared: bool = False
    """Whether it is every tenant's: none of them gets more than half of its places."""


class StartQueue:
    """Begins deliveries, unless `begin` says no. Whoever uses it says when one ended."""

    def __init__(
        self,
        begin: Callable[[ClaimedJob], bool],
        give_back: Callable[[ClaimedJob], None],
        environment: DispatchEnvironment,
    ) -> None:
        self.max_bytes = MAX_BYTES
        self.bytes = 0
        """What those bring that are ours, until what became of them is written."""
        self._begin = begin
        self._give_back = give_back
        self._environment = environment
        self.limits = PoolLimits()
        self.active = 0
        self.rate_limited = 0
        self._pace = PacedLimiter(None)
        self._ready: deque[tuple[ClaimedJob, float]] = deque()
        self._starting: asyncio.TimerHandle | None = None
        self._checking: asyncio.TimerHandle | None = None
        # How long a delivery usually takes.
        self._usual = 1.0

    def set_limits(self, limits: PoolLimits) -> None:
        """Go on under other terms."""
        self.limits = limits
        self._pace.resize(limits.rate_limit)
        self.start()

    def charge_recent_starts(self, starts: Sequence[float]) -> None:
        """Deliveries that whoever was here before began so many seconds ago count as ours."""
        now = self._environment.monotonic()
        for ago in starts:
            self._pace.take(now - ago)

    @property
    def has_ready(self) -> bool:
        """Whether some job waits for its start: then something else happens before the next."""
        return bool(self._ready)

    @property
    def free_slots(self) -> int:
        """How many more may be ours."""
        if not self.limits.is_active or self.bytes >= self.max_bytes:
            return 0
        concurrency = self.limits.concurrency
        ahead = 0
        if self._pace.limit is None:
            ahead = int(concurrency * SHORT_DELIVERY / max(self._usual, SHORT_DELIVERY))
        return concurrency + ahead - self.active - len(self._ready)

    @property
    def room(self) -> int:
        """How many more may be taken now."""
        room = min(MAX_CLAIM, self.free_slots)
        limit = self._pace.limit
        if limit is None or room <= 0:
            return room
        if self.pause > CLAIM_AHEAD:
            return 0
        return min(room, max(1, int(limit / 60 * CLAIM_AHEAD)) - len(self._ready))

    @property
    def pause(self) -> float:
        """Seconds until the pace allows the next start."""
        return self._pace.wait(self._environment.monotonic())

    def put(self, jobs: Sequence[ClaimedJob], taken_at: float) -> None:
        """Start these as places and pace allow. They are ours since `taken_at`, not for long."""
        self._ready.extend((job, taken_at) for job in jobs)
        self.start()

    def ended(self, seconds: float | None) -> None:
        """A delivery ended, after so many seconds if it was made."""
        self.active -= 1
        if seconds is not None:
            self._usual += (seconds - self._usual) * _WEIGHT
        if self._ready:
            self.start()

    def start(self) -> None:
        """Begin what can begin; give back what cannot for too long."""
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        while self._ready and self.active < self.limits.concurrency and self.limits.is_active:
            now = self._environment.monotonic()
            pause = self._pace.wait(now)
            if pause > 0:
                self._wait_for_pace(pause)
                break
            job, taken_at = self._ready.popleft()
            if now - taken_at > MAX_WAIT:
                # This process stood still: it may be another's by now, and be sent already.
                self._give_back(job)
            elif self._begin(job):
                self._pace.take(now)
                self.active += 1
        if self._ready and self._checking is None:
            self._check()

    def close(self) -> None:
        """Start nothing any more."""
        for timer in (self._starting, self._checking):
            if timer is not None:
                timer.cancel()

    def _wait_for_pace(self, pause: float) -> None:
        self.rate_limited += 1
        if pause > MAX_WAIT:  # it has become slower than anybody thought
            self._return(float("inf"))
        else:
            self._starting = asyncio.get_running_loop().call_later(pause, self.start)

    def _check(self) -> None:
        """Others must not think a job abandoned that we are about to send."""
        self._checking = None
        is_over = not self.limits.is_active
        self._return(float("inf") if is_over else self._environment.monotonic() - MAX_WAIT)
        if self._ready:
            loop = asyncio.get_running_loop()
            self._checking = loop.call_later(MAX_WAIT / 4, self._check)

    def _return(self, taken_before: float) -> None:
        while self._ready and self._ready[0][1] <= taken_before:
            self._give_back(self._ready.popleft()[0])
