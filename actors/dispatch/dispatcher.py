"""Delivers the jobs of one pool: claims them, sends them at the pool's rate, writes the results.

A job frees its slot as soon as the target has answered. The next job of its group starts after the
result is committed, so that no job is sent again behind its successors after a crash.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from actors.dispatch.deliveries import Deliveries, DeliveryServices
from actors.dispatch.job_loader import GROUPS_AT_ONCE, READ_ALL_EVERY, JobLoader
from actors.dispatch.start_queue import CLAIM_AHEAD, MAX_BYTES, PoolLimits
from actors.dispatch.targets import Targets
from actors.runtime.actor import ActorEnvironment
from core.dispatch.job import JobKey, JobRef
from core.dispatch.scheduler import JobScheduler
from core.shared.tsid import made_at
from services.shared.progress import WorkProgress
from services.shared.retry import log_outage, pause
from storage.dispatch.job_queue import JobQueue
from storage.postgres.error_class import SERVER_ERRORS

log = structlog.get_logger("dispatch")

MAX_UNWRITTEN = 2_000
# A claim lasts for the job's time-out plus this many seconds; the job may wait for a part of it.
LEASE_GRACE = 15.0
# Without a pause, each round would claim only one or two jobs.
ROUND_PAUSE = 0.002
# If the scheduler is full and no job can start, jobs are evicted at most this often. Jobs that are
# due soon stay.
EVICT_INTERVAL = 0.5
KEEP_DUE_WITHIN = 15.0


@dataclass(frozen=True, kw_only=True)
class DispatcherOptions:
    """The limits of a dispatcher that do not change while it runs."""

    target_limit: int
    buffer: int
    """The maximum number of jobs in memory."""
    max_bytes: int = MAX_BYTES
    """No job is claimed while the claimed jobs have this many bytes."""
    read_all_every: float = READ_ALL_EVERY


class Dispatcher:
    """Holds everything that one pool has in memory."""

    def __init__(
        self,
        queue: JobQueue,
        services: DeliveryServices,
        environment: ActorEnvironment,
        options: DispatcherOptions,
    ) -> None:
        monotonic = environment.monotonic
        self._woken = asyncio.Event()
        self._wake = self._woken.set
        self._scheduler = JobScheduler()
        self._targets = Targets(options.target_limit, monotonic)
        self._queue = queue
        self._environment = environment
        self._loader = JobLoader(
            queue,
            self._scheduler,
            options.buffer,
            environment.now,
            monotonic,
            options.read_all_every,
        )
        self._rescanning = asyncio.Lock()
        self._scanned_at = monotonic()
        self._deliveries = Deliveries(
            queue.finish,
            services,
            environment,
            (self._scheduler, self._targets),
            options.max_bytes,
            self._wake,
        )
        self._start_queue = self._deliveries.start_queue
        self._counters = self._deliveries.counters
        self.claiming = WorkProgress(monotonic)
        self.writing = self._deliveries.writing
        self._thins_at = monotonic()
        self._is_crowded = False
        self._alarm: asyncio.TimerHandle | None = None
        self.load_parked_groups = self._loader.park
        self.charge_recent_starts = self._start_queue.charge_recent_starts
        self.in_flight = self._deliveries.in_flight
        self.breakers = self._targets.snapshot
        self.forget_idle_targets = self._targets.forget_idle

    @property
    def limits(self) -> PoolLimits:
        return self._start_queue.limits

    def set_limits(self, limits: PoolLimits) -> None:
        self._targets.shared_places = limits.concurrency if limits.is_shared else None
        self._start_queue.set_limits(limits)
        self._wake()

    def offer(self, jobs: Iterable[JobRef]) -> None:
        self._loader.offer(jobs)
        self._wake()

    def drop(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs that an operator has ended, and read their groups again."""
        for key in keys:
            self._scheduler.drop(key, self._environment.now())
        self._wake()

    async def rescan(self) -> None:
        """Read jobs that were not handed over, and changes by operators, from Postgres."""
        async with self._rescanning:
            self._counters.expired += await self._loader.expire()
            await self._loader.rescan()
            self._scanned_at = self._environment.monotonic()
        self._wake()

    async def rescan_targets(self) -> None:
        async with self._rescanning:
            await self._loader.rescan_targets()
        self._wake()

    def reset_breakers(self, tenant: int, target: str | None) -> int:
        reset = self._targets.reset(tenant, target)
        for target_key in reset:
            self._scheduler.reopen(target_key)
        self._wake()
        return len(reset)

    async def run_forever(self) -> None:
        while True:
            self._woken.clear()
            for target_key in self._targets.reopened():
                self._scheduler.reopen(target_key)
            await self._reload_stale()
            jobs = self._pick()
            if jobs:
                await self._claim(jobs)
                if len(jobs) < self.limits.concurrency // 4:
                    await asyncio.sleep(ROUND_PAUSE)
            elif not (
                self._scheduler.stale_groups(1)
                or await self._loader.read_next_page()
                or self._evict()
            ):
                self._set_alarm()
                self.claiming.done()
                await self._woken.wait()

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await self._deliveries.close()

    def oldest_age(self) -> float:
        oldest = self._scheduler.oldest_id()
        return 0.0 if oldest is None else max(0.0, self._environment.now() - made_at(oldest))

    def snapshot(self) -> dict[str, Any]:
        return {
            "behind": self._loader.is_behind,
            "looked_ago": self._environment.monotonic() - self._scanned_at,
            "active": self._start_queue.active,
            "buffered": len(self._scheduler),
            "waiting": len(self._scheduler) - len(self._deliveries),
            "unwritten": self._deliveries.unwritten,
            "blocked_groups": sum(1 for _ in self._scheduler.blocked()),
            "groups": sum(1 for _ in self._scheduler.groups()),
            "breakers": self._targets.states(),
            "rate_limited": self._start_queue.rate_limited,
            **self._counters.snapshot(),
        }

    async def _reload_stale(self) -> None:
        await self._loader.settle(self._scheduler.stale_groups(GROUPS_AT_ONCE))
        if lost := self._deliveries.lost.copy():
            await self._loader.find(lost)
            del self._deliveries.lost[: len(lost)]

    def _room(self) -> int:
        return 0 if self._deliveries.unwritten >= MAX_UNWRITTEN else self._start_queue.room

    def _evict(self) -> bool:
        """Evict jobs that cannot start if others need the room; return whether any were evicted."""
        is_idle = self._room() > 0 and not self._scheduler.has_listed
        self._is_crowded = is_idle and self._loader.is_behind
        monotonic, now = self._environment.monotonic(), self._environment.now()
        if not self._is_crowded or monotonic < self._thins_at:
            return False
        self._thins_at = monotonic + EVICT_INTERVAL
        gone = self._scheduler.evict(
            now, now + KEEP_DUE_WITHIN, self._loader.limit // 2, self._targets.is_breaker_tripped
        )
        if gone:
            log.debug("dispatch.thinned", jobs=gone)
            self._loader.reread_later()
        return gone > 0

    def _pick(self) -> list[JobRef]:
        now, jobs = self._environment.now(), []
        for _ in range(self._room()):
            job = self._next(now) if self._start_queue.free_slots > 0 else None
            if job is None:
                break
            self._deliveries.reserve(job)
            jobs.append(job)
        return jobs

    def _next(self, now: float) -> JobRef | None:
        """Take the next job that may start, also of tenants that had used up their share."""
        while True:
            job = self._scheduler.take(now, self._targets.allows)
            if job is not None:
                return job
            target_key = self._targets.next_in_turn()
            if target_key is None:
                return None
            self._scheduler.reopen(target_key)

    async def _claim(self, jobs: list[JobRef]) -> None:
        keys = [job.key for job in jobs]
        asked_at = self._environment.monotonic()
        self.claiming.waits()
        try:
            claimed = await self._queue.claim(keys)
            self.claiming.done()
        except SERVER_ERRORS as error:
            log_outage(error, who="dispatch")
            await pause(2, chance=self._environment.chance)
            claimed = []  # the claim may have been committed, so the jobs are read again
        await self._deliveries.start(keys, claimed, asked_at)

    def _set_alarm(self) -> None:
        """Set a timer for the next job that can be claimed or target that can be tried.

        A freed slot and the start of the last claimed job wake the dispatcher without a timer.
        """
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waits, now = [], self._environment.monotonic()
        opening, due = self._targets.next_opening, self._scheduler.next_due()
        if opening is not None:
            waits.append(opening - now)
        if self._is_crowded:
            waits.append(self._thins_at - now)
        is_free = self._start_queue.free_slots > 0 and not self._start_queue.has_ready
        if is_free and (self._scheduler.has_listed or due is not None):
            until_due = 0.0 if due is None else due - self._environment.now()
            first = 0.0 if self._scheduler.has_listed else until_due
            waits.append(max(first, self._start_queue.pause - CLAIM_AHEAD))
        if waits:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(0.001, min(waits)), self._wake)
