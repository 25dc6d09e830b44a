"""A pool's mind: takes what may go, sends it at the pool's pace, and writes what became of it.

A job's place is free as soon as its answer is here; its group goes on when that is committed, so
that after a crash nothing is sent again behind what came after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from actors.dispatch.counters import DispatchCounters
from actors.dispatch.job_loader import GROUPS_AT_ONCE, JobLoader
from actors.dispatch.ports import ClaimQueue, DeliveryListener, DispatchEnvironment
from actors.dispatch.result_writer import FinishedJob, ResultWriter, RetryTimes
from actors.dispatch.skipped import crashed, given_back, postponed, skip_step
from actors.dispatch.start_queue import CLAIM_AHEAD, PoolLimits, StartQueue
from actors.dispatch.targets import Targets
from core.dispatch.attempt import DeliveryAttempt, JobTransition, decide
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey, JobRef, JobStatus, Mode
from core.dispatch.scheduler import JobScheduler
from core.dispatch.target import TargetKey, target_key_of
from core.shared.backoff import backoff
from services.shared.progress import WorkProgress
from storage.dispatch.job_queue import JobResult
from storage.postgres.error_class import SERVER_ERRORS

log = structlog.get_logger("dispatch")

MAX_UNWRITTEN = 2_000
# A job is ours for its time-out and so many seconds more; it may wait for its start a part of them.
LEASE_GRACE = 15.0
# Rounds that follow each other at once would each carry a job or two.
ROUND_PAUSE = 0.002
# A full board of which nothing can go is thinned, at most so often; jobs that are due soon stay.
EVICT_INTERVAL = 0.5
KEEP_DUE_WITHIN = 15.0


@dataclass(slots=True)
class _Delivery:
    """A job in our hands."""

    job_ref: JobRef
    ticket: int
    target_key: TargetKey
    began: float


class Dispatcher:
    """Sends the jobs of one pool."""

    def __init__(
        self,
        queue: ClaimQueue,
        send: Callable[[ClaimedJob], Awaitable[DeliveryAttempt]],
        environment: DispatchEnvironment,
        *,
        target_limit: int,
        listener: DeliveryListener,
    ) -> None:
        self.scheduler = JobScheduler()
        self.counters = DispatchCounters(environment.monotonic)
        self.targets = Targets(target_limit, environment.monotonic)
        self._queue = queue
        self._send = send
        self._environment = environment
        self._listener = listener
        # What is to be done about jobs before they are started, so that none has to wait then.
        self.prepare: Callable[[Sequence[ClaimedJob]], Awaitable[None]] | None = None
        self._start_queue = StartQueue(self._begin, self._give_back, environment)
        self._under_way: dict[JobKey, _Delivery] = {}
        # What each job brings that is ours, until it is written.
        self._sizes: dict[JobKey, int] = {}
        self._lost: list[JobKey] = []
        self.claiming = WorkProgress(environment.monotonic)
        self.writing = WorkProgress(environment.monotonic)
        self._result_writer = ResultWriter(
            queue.finish, self._written, environment.chance, self.writing
        )
        self._thins_at = environment.monotonic()
        self._is_crowded = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    @property
    def limits(self) -> PoolLimits:
        """What the pool may do now."""
        return self._start_queue.limits

    def set_limits(self, limits: PoolLimits) -> None:
        """Go on under other terms."""
        self.targets.shared_places = limits.concurrency if limits.is_shared else None
        self._start_queue.set_limits(limits)
        self.wake()

    def limit_bytes(self, size: int) -> None:
        """Take no further job while those that are ours bring so many bytes."""
        self._start_queue.max_bytes = size

    def charge_recent_starts(self, starts: Sequence[float]) -> None:
        """Deliveries that whoever was here before began so many seconds ago count as ours."""
        self._start_queue.charge_recent_starts(starts)

    async def run_forever(self, reader: JobLoader) -> None:
        """Round after round, as long as there is something to do; else until something happens."""
        while True:
            self._woken.clear()
            for target_key in self.targets.reopened():
                self.scheduler.reopen(target_key)
            await self._reload_stale(reader)
            jobs = self._pick()
            if jobs:
                await self._claim(jobs)
                if len(jobs) < self.limits.concurrency // 4:
                    await asyncio.sleep(ROUND_PAUSE)
            elif not (
                self.scheduler.stale_groups(1)
                or await reader.read_next_page()
                or self._evict(reader)
            ):
                self._set_alarm()
                self.claiming.done()
                await self._woken.wait()

    async def close(self) -> None:
        """Stop; what is under way is sent again by whoever comes next."""
        self._start_queue.close()
        if self._alarm is not None:
            self._alarm.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._result_writer.close()

    def in_flight(self, tenant: int, limit: int) -> list[dict[str, Any]]:
        """A tenant's jobs that are under way, longest first."""
        now = self._environment.monotonic()
        own = [one for one in self._under_way.values() if one.job_ref.tenant == tenant]
        return [
            {
                "job_id": one.job_ref.job_id,
                "target": one.job_ref.target,
                "group": one.job_ref.group,
                "seconds": now - one.began,
            }
            for one in sorted(own, key=lambda one: one.began)[:limit]
        ]

    def snapshot(self) -> dict[str, Any]:
        """How it stands."""
        return {
            "active": self._start_queue.active,
            "buffered": len(self.scheduler),
            "waiting": len(self.scheduler) - len(self._under_way),
            "unwritten": len(self._result_writer),
            "blocked_groups": sum(1 for _ in self.scheduler.blocked()),
            "groups": sum(1 for _ in self.scheduler.groups()),
            "breakers": self.targets.states(),
            "rate_limited": self._start_queue.rate_limited,
            **self.counters.snapshot(),
        }

    async def _reload_stale(self, reader: JobLoader) -> None:
        """Read what is true of groups and jobs that were not as they seemed."""
        await reader.settle(self.scheduler.stale_groups(GROUPS_AT_ONCE))
        if self._lost:
            lost = self._lost.copy()
            await reader.find(lost)
            del self._lost[: len(lost)]

    def _room(self) -> int:
        """How many more may be taken now."""
        return 0 if len(self._result_writer) >= MAX_UNWRITTEN else self._start_queue.room

    def _evict(self, reader: JobLoader) -> bool:
        """Let go of jobs that cannot go, if they keep others off the board; whether there were."""
        is_idle = self._room() > 0 and not self.scheduler.has_listed
        self._is_crowded = is_idle and reader.is_behind
        monotonic, now = self._environment.monotonic(), self._environment.now()
        if not self._is_crowded or monotonic < self._thins_at:
            return False
        self._thins_at = monotonic + EVICT_INTERVAL
        gone = self.scheduler.evict(
            now, now + KEEP_DUE_WITHIN, reader.limit // 2, self.targets.is_breaker_tripped
        )
        if gone:
            log.debug("dispatch.thinned", jobs=gone)
            reader.reread_later()
        return gone > 0

    def _pick(self) -> list[JobRef]:
        now, jobs = self._environment.now(), []
        for _ in range(self._room()):
            job = self._next(now) if self._start_queue.free_slots > 0 else None
            if job is None:
                break
            self._sizes[job.key] = job.size
            self._start_queue.bytes += job.size
            target_key = target_key_of(job.tenant, job.target)
            ticket = self.targets.begin(target_key)
            began = self._environment.monotonic()
            self._under_way[job.key] = _Delivery(job, ticket, target_key, began)
            jobs.append(job)
        return jobs

    def _next(self, now: float) -> JobRef | None:
        """The next job that may go, also of tenants that had their share until now."""
        while True:
            job = self.scheduler.take(now, self.targets.allows)
            if job is not None:
                return job
            target_key = self.targets.next_in_turn()
            if target_key is None:
                return None
            self.scheduler.reopen(target_key)

    async def _claim(self, jobs: list[JobRef]) -> None:
        keys = [job.key for job in jobs]
        asked_at = self._environment.monotonic()
        self.claiming.waits()
        try:
            claimed = await self._queue.claim(keys)
        except SERVER_ERRORS as error:
            log.warning("dispatch.database_away", error=type(error).__name__)
            await asyncio.sleep(backoff(2, base=0.05, cap=1.0, jitter=self._environment.chance()))
            claimed = []  # or they are ours without our knowing: that is to be read
        else:
            self.claiming.done()
        await self._make_ready(claimed)
        won = {JobKey(job.tenant, job.job_id) for job in claimed}
        for key in keys:
            if key not in won:
                self._drop_lost(key)
        now, ours = self._environment.now(), []
        for job in claimed:
            step = skip_step(job, now)
            if step is not None:
                self._end(job, step, None)
            elif self._stays(job):
                ours.append(job)
        self._start_queue.put(ours, asked_at)

    def _stays(self, job: ClaimedJob) -> bool:
        """Whether a job is ours at the target that it has now; one that takes none is given back.

        Somebody may have given its subscription another since it came onto the board.
        """
        delivery = self._under_way[JobKey(job.tenant, job.job_id)]
        target_key = target_key_of(job.tenant, job.target_url)
        if target_key == delivery.target_key:
            return True
        if not self.targets.allows(target_key):
            self._give_back(job)
            return False
        self.targets.end(delivery.target_key, delivery.ticket, None)
        self.scheduler.reopen(delivery.target_key)
        delivery.target_key, delivery.ticket = target_key, self.targets.begin(target_key)
        return True

    def _begin(self, job: ClaimedJob) -> bool:
        """Send a job, unless its target has been left alone since it was taken."""
        if not self._start_queue.has_ready:
            self.wake()  # it was the last: there is room for the next
        if self.targets.is_open(target_key_of(job.tenant, job.target_url)):
            self._give_back(job)
            return False
        task = asyncio.create_task(self._deliver(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _give_back(self, job: ClaimedJob) -> None:
        self._end(job, given_back(job), None)

    async def _make_ready(self, jobs: Sequence[ClaimedJob]) -> None:
        if self.prepare is None:
            return
        try:
            await self.prepare(jobs)
        except Exception as error:  # whoever sends them says what is wrong, job by job
            log.warning("dispatch.not_prepared", error=type(error).__name__)

    async def _deliver(self, job: ClaimedJob) -> None:
        try:
            sent = await self._send(job)
        except SERVER_ERRORS as error:
            log.warning("dispatch.database_away", error=type(error).__name__)
            sent = postponed(self._environment.now())
        except Exception as error:  # a job that breaks us must not break the pool
            log.exception("dispatch.send_crashed", job=job.job_id, tenant=job.tenant)
            sent = crashed(error, self._environment.now())
        step = decide(
            sent,
            attempt_count=job.attempt_count,
            max_retries=job.max_retries,
            jitter=self._environment.chance(),
            age=self._environment.now() - job.created_at,
        )
        self._end(job, step, sent)
        self._start_queue.ended(sent.seconds)
        self.wake()

    def _end(self, job: ClaimedJob, step: JobTransition, sent: DeliveryAttempt | None) -> None:
        key = JobKey(job.tenant, job.job_id)
        self._let_go(key, sent)
        self.counters.count(step, sent)
        self._result_writer.add(job, JobResult(key, job.send_no, step, sent))

    def _let_go(self, key: JobKey, sent: DeliveryAttempt | None) -> None:
        """Free the place that a job had at its target. It is under way until it is written."""
        delivery = self._under_way[key]
        if self.targets.end(delivery.target_key, delivery.ticket, sent):
            self._tell(self._listener.breaker_opened, delivery.target_key)
        self.scheduler.reopen(delivery.target_key)
        if sent is None:
            self._under_way.pop(key, None)

    def _is_no_more(self, key: JobKey) -> None:
        """What it brings is not in our memory any more."""
        self._start_queue.bytes -= self._sizes.pop(key, 0)

    def _drop_lost(self, key: JobKey) -> None:
        """Postgres did not let us have it. Why, is to be read there."""
        self._is_no_more(key)
        self._let_go(key, None)
        self._lost.append(key)
        self.scheduler.drop(key, self._environment.now())

    def _written(self, outcomes: Sequence[FinishedJob], kept: RetryTimes) -> None:
        """These are committed: their groups go on."""
        now = self._environment.now()
        for job, result in outcomes:
            self._is_no_more(result.key)
            delivery = self._under_way.pop(result.key, None)
            due = kept.get(result.key)
            if due is None:  # somebody else took it meanwhile
                self._lost.append(result.key)
                self.scheduler.drop(result.key, now)
                continue
            mode = delivery.job_ref.mode if delivery else None
            if result.step.status is JobStatus.QUEUED:
                self.scheduler.retry(result.key, due, now, target=job.target_url)
            elif result.step.status is JobStatus.ERROR and mode is Mode.BLOCK_ON_ERROR:
                self._hold(result.key, delivery, now)
            else:
                self.scheduler.finish(result.key, now)
            self._tell(self._listener.job_finished, job, result.step, result.sent)
        self.wake()

    def _tell(self, listener: Callable[..., None], *what: object) -> None:
        try:
            listener(*what)
        except Exception:  # whoever listens must not break the pool
            log.exception("dispatch.listener_failed")

    def _hold(self, key: JobKey, delivery: _Delivery | None, now: float) -> None:
        if delivery is not None and delivery.job_ref.group is not None:
            self.scheduler.block(key, now)
        else:
            self.scheduler.finish(key, now)

    def _set_alarm(self) -> None:
        """Be woken when a job can be taken or a target be tried.

        When a place becomes free, or the last of those that are ready starts, we are told.
        """
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waits, now = [], self._environment.monotonic()
        opening, due = self.targets.next_opening, self.scheduler.next_due()
        if opening is not None:
            waits.append(opening - now)
        if self._is_crowded:
            waits.append(self._thins_at - now)
        is_free = self._start_queue.free_slots > 0 and not self._start_queue.has_ready
        if is_free and (self.scheduler.has_listed or due is not None):
            until_due = 0.0 if due is None else due - self._environment.now()
            first = 0.0 if self.scheduler.has_listed else until_due
            waits.append(max(first, self._start_queue.pause - CLAIM_AHEAD))
        if waits:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(0.001, min(waits)), self.wake)
