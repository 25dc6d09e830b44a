"""Claimed jobs that wait for a free slot and for the pool's rate.

A few jobs are claimed ahead of their start, so that a freed slot need not wait for Postgres. No job
waits for long, because its claim expires.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.runtime.actor import ActorEnvironment
from core.dispatch.claim import ClaimedJob
from core.shared.rate_limit import PacedLimiter

MAX_CLAIM = 500
MAX_BYTES = 67_108_864
# A job may be claimed this many seconds before the rate or a free slot allows its start.
CLAIM_AHEAD = 0.25
SHORT_DELIVERY = 0.05
MAX_WAIT = 5.0
# The weight of one delivery in the moving average of delivery times.
_WEIGHT = 0.05


@dataclass(slots=True)
class PoolLimits:
    """The limits of a pool, which change while it runs."""

    concurrency: int = 10
    rate_limit: int | None = None
    is_active: bool = True
    is_shared: bool = False
    """Whether tenants share the pool; then none of them gets more than half of its slots."""


class StartQueue:
    """Starts deliveries by `begin`, unless that returns False. The caller reports their ends."""

    def __init__(
        self,
        begin: Callable[[ClaimedJob], bool],
        give_back: Callable[[ClaimedJob], None],
        environment: ActorEnvironment,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._max_bytes = max_bytes
        self.bytes = 0
        """The bytes of all claimed jobs, until their results are written."""
        self._begin = begin
        self._give_back = give_back
        self._environment = environment
        self.limits = PoolLimits()
        self.active = 0
        self.rate_limited = 0
        self._limiter = PacedLimiter(None)
        self._ready: deque[tuple[ClaimedJob, float]] = deque()
        self._starting: asyncio.TimerHandle | None = None
        self._checking: asyncio.TimerHandle | None = None
        # The moving average of delivery times, in seconds.
        self._usual = 1.0

    def set_limits(self, limits: PoolLimits) -> None:
        self.limits = limits
        self._limiter.resize(limits.rate_limit)
        self.start()

    def charge_recent_starts(self, starts: Sequence[float]) -> None:
        """Charge the rate with deliveries that an earlier process started so many seconds ago."""
        now = self._environment.monotonic()
        for ago in starts:
            self._limiter.take(now - ago)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    @property
    def free_slots(self) -> int:
        """Return how many more jobs may be claimed, regardless of the rate."""
        if not self.limits.is_active or self.bytes >= self._max_bytes:
            return 0
        concurrency = self.limits.concurrency
        ahead = 0
        if self._limiter.limit is None:
            ahead = int(concurrency * SHORT_DELIVERY / max(self._usual, SHORT_DELIVERY))
        return concurrency + ahead - self.active - len(self._ready)

    @property
    def room(self) -> int:
        room = min(MAX_CLAIM, self.free_slots)
        limit = self._limiter.limit
        if limit is None or room <= 0:
            return room
        if self.pause > CLAIM_AHEAD:
            return 0
        return min(room, max(1, int(limit / 60 * CLAIM_AHEAD)) - len(self._ready))

    @property
    def pause(self) -> float:
        """Return the seconds until the rate allows the next start."""
        return self._limiter.wait(self._environment.monotonic())

    def put(self, jobs: Sequence[ClaimedJob], claimed_at: float) -> None:
        self._ready.extend((job, claimed_at) for job in jobs)
        self.start()

    def ended(self, seconds: float | None) -> None:
        """Free the slot of a delivery that took `seconds`, or None if it was not made."""
        self.active -= 1
        if seconds is not None:
            self._usual += (seconds - self._usual) * _WEIGHT
        if self._ready:
            self.start()

    def start(self) -> None:
        """Start the jobs that can start; give back those that have waited for too long."""
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        while self._ready and self.active < self.limits.concurrency and self.limits.is_active:
            now = self._environment.monotonic()
            pause = self._limiter.wait(now)
            if pause > 0:
                self._wait_for_rate(pause)
                break
            job, claimed_at = self._ready.popleft()
            if now - claimed_at > MAX_WAIT:
                # This process was suspended: another may have claimed and sent the job since.
                self._give_back(job)
            elif self._begin(job):
                self._limiter.take(now)
                self.active += 1
        if self._ready and self._checking is None:
            self._check()

    def close(self) -> None:
        for timer in (self._starting, self._checking):
            if timer is not None:
                timer.cancel()

    def _wait_for_rate(self, pause: float) -> None:
        self.rate_limited += 1
        if pause > MAX_WAIT:  # the rate limit was lowered
            self._return(float("inf"))
        else:
            self._starting = asyncio.get_running_loop().call_later(pause, self.start)

    def _check(self) -> None:
        """Give jobs back before their claims expire and another process claims them."""
        self._checking = None
        is_over = not self.limits.is_active
        self._return(float("inf") if is_over else self._environment.monotonic() - MAX_WAIT)
        if self._ready:
            loop = asyncio.get_running_loop()
            self._checking = loop.call_later(MAX_WAIT / 4, self._check)

    def _return(self, claimed_before: float) -> None:
        while self._ready and self._ready[0][1] <= claimed_before:
            self._give_back(self._ready.popleft()[0])
