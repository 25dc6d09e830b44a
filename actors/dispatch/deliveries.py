"""Deliveries under way: from the claim of a job to its committed result."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from actors.dispatch.counters import DispatchCounters
from actors.dispatch.result_writer import FinishedJob, ResultWriter, RetryTimes
from actors.dispatch.skipped import crashed, deferred, given_back, skip_step
from actors.dispatch.start_queue import StartQueue
from actors.dispatch.targets import Targets
from actors.runtime.actor import ActorEnvironment
from core.dispatch.attempt import DeliveryAttempt, JobTransition, decide
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobKey, JobRef, JobStatus, Mode
from core.dispatch.scheduler import JobScheduler
from core.dispatch.target import TargetKey, target_key_of
from services.shared.process import BackgroundTasks
from services.shared.progress import WorkProgress
from services.shared.retry import log_outage
from storage.dispatch.job_queue import JobResult
from storage.postgres.error_class import SERVER_ERRORS

log = structlog.get_logger("dispatch")

# Seconds until a job is tried again whose profile could not be read.
DATABASE_DELAY = 2.0


class DeliveryServices(Protocol):
    """Sends deliveries and gets their results. Only `prepare` and `send` may wait."""

    async def prepare(self, jobs: Sequence[ClaimedJob]) -> None: ...

    async def send(self, job: ClaimedJob) -> DeliveryAttempt: ...

    def job_finished(
        self, job: ClaimedJob, step: JobTransition, sent: DeliveryAttempt | None
    ) -> None: ...

    def breaker_opened(self, target_key: TargetKey) -> None: ...


@dataclass(slots=True)
class _Delivery:
    job_ref: JobRef
    ticket: int
    target_key: TargetKey
    began: float


class Deliveries:
    """Starts claimed jobs, sends them, and passes their results to the writer.

    `wake` tells the dispatcher that there may be room for the next claim.
    """

    def __init__(
        self,
        finish: Callable[[Sequence[JobResult]], Awaitable[RetryTimes]],
        services: DeliveryServices,
        environment: ActorEnvironment,
        schedule: tuple[JobScheduler, Targets],
        max_bytes: int,
        wake: Callable[[], None],
    ) -> None:
        self.counters = DispatchCounters(environment.monotonic)
        self.writing = WorkProgress(environment.monotonic)
        self.start_queue = StartQueue(self._begin, self._give_back, environment, max_bytes)
        self.lost: list[JobKey] = []
        """Jobs that could not be claimed or finished; the loader reads them again."""
        self._services = services
        self._environment = environment
        self._scheduler, self._targets = schedule
        self._wake = wake
        self._result_writer = ResultWriter(finish, self._written, environment.chance, self.writing)
        self._under_way: dict[JobKey, _Delivery] = {}
        # The bytes of each claimed job, until its result is written.
        self._sizes: dict[JobKey, int] = {}
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def unwritten(self) -> int:
        return len(self._result_writer)

    def reserve(self, job: JobRef) -> None:
        """Reserve a slot at the job's target before the job is claimed."""
        self._sizes[job.key] = job.size
        self.start_queue.bytes += job.size
        target_key = target_key_of(job.tenant, job.target)
        ticket = self._targets.begin(target_key)
        self._under_way[job.key] = _Delivery(job, ticket, target_key, self._environment.monotonic())

    async def start(
        self, keys: Sequence[JobKey], claimed: Sequence[ClaimedJob], asked_at: float
    ) -> None:
        """Start the jobs that were claimed of these keys; forget the others."""
        try:
            await self._services.prepare(claimed)
        except Exception as error:  # sending reports the problem job by job
            log.warning("dispatch.not_prepared", error=type(error).__name__)
        won = {JobKey(job.tenant, job.job_id) for job in claimed}
        for key in keys:
            if key not in won:
                self._drop_lost(key)
        now, ready = self._environment.now(), []
        for job in claimed:
            step = skip_step(job, now)
            if step is not None:
                self._end(job, step, None)
            elif self._stays(job):
                ready.append(job)
        self.start_queue.put(ready, asked_at)

    async def close(self) -> None:
        self.start_queue.close()
        await self._tasks.close()
        await self._result_writer.close()

    def in_flight(self, tenant: int, limit: int) -> list[dict[str, Any]]:
        """Describe a tenant's jobs that are under way, the longest first."""
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

    def _stays(self, job: ClaimedJob) -> bool:
        """Return whether a job may go to its current target, else give it back.

        The subscription may have got another target after the job was scheduled.
        """
        delivery = self._under_way[JobKey(job.tenant, job.job_id)]
        target_key = target_key_of(job.tenant, job.target_url)
        if target_key == delivery.target_key:
            return True
        if not self._targets.allows(target_key):
            self._give_back(job)
            return False
        self._targets.end(delivery.target_key, delivery.ticket, None)
        self._scheduler.reopen(delivery.target_key)
        delivery.target_key, delivery.ticket = target_key, self._targets.begin(target_key)
        return True

    def _begin(self, job: ClaimedJob) -> bool:
        """Send a job, unless the breaker of its target has opened since the claim."""
        if not self.start_queue.has_ready:
            self._wake()  # the last ready job starts, so there is room to claim more
        if self._targets.is_open(target_key_of(job.tenant, job.target_url)):
            self._give_back(job)
            return False
        self._tasks.start(self._deliver(job))
        return True

    def _give_back(self, job: ClaimedJob) -> None:
        self._end(job, given_back(job), None)

    async def _deliver(self, job: ClaimedJob) -> None:
        try:
            sent = await self._services.send(job)
        except SERVER_ERRORS as error:
            log_outage(error, who="dispatch")
            sent = deferred("the database is away", self._environment.now(), DATABASE_DELAY)
        except Exception as error:  # one job must not break the pool
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
        self.start_queue.ended(sent.seconds)
        self._wake()

    def _end(self, job: ClaimedJob, step: JobTransition, sent: DeliveryAttempt | None) -> None:
        key = JobKey(job.tenant, job.job_id)
        self._let_go(key, sent)
        self.counters.count(step, sent)
        self._result_writer.add(job, JobResult(key, job.send_no, step, sent))

    def _let_go(self, key: JobKey, sent: DeliveryAttempt | None) -> None:
        """Free a job's slot at its target. The job stays under way until its result is written."""
        delivery = self._under_way[key]
        if self._targets.end(delivery.target_key, delivery.ticket, sent):
            self._notify(self._services.breaker_opened, delivery.target_key)
        self._scheduler.reopen(delivery.target_key)
        if sent is None:
            self._under_way.pop(key, None)

    def _free_bytes(self, key: JobKey) -> None:
        self.start_queue.bytes -= self._sizes.pop(key, 0)

    def _drop_lost(self, key: JobKey) -> None:
        """Forget a job that could not be claimed, so that it is read again."""
        self._free_bytes(key)
        self._let_go(key, None)
        self.lost.append(key)
        self._scheduler.drop(key, self._environment.now())

    def _written(self, outcomes: Sequence[FinishedJob], retry_times: RetryTimes) -> None:
        """Let the groups of committed results continue."""
        now = self._environment.now()
        for job, result in outcomes:
            self._free_bytes(result.key)
            delivery = self._under_way.pop(result.key, None)
            due = retry_times.get(result.key)
            if due is None:  # another process claimed it meanwhile
                self.lost.append(result.key)
                self._scheduler.drop(result.key, now)
                continue
            if result.step.status is JobStatus.QUEUED:
                self._scheduler.retry(result.key, due, now, target=job.target_url)
            elif result.step.status is JobStatus.ERROR and _blocks_its_group(delivery):
                self._scheduler.block(result.key, now)
            else:
                self._scheduler.finish(result.key, now)
            self._notify(self._services.job_finished, job, result.step, result.sent)
        self._wake()

    def _notify(self, listener: Callable[..., None], *arguments: object) -> None:
        try:
            listener(*arguments)
        except Exception:  # a listener must not break the pool
            log.exception("dispatch.listener_failed")


def _blocks_its_group(delivery: _Delivery | None) -> bool:
    job_ref = delivery.job_ref if delivery else None
    return job_ref is not None and job_ref.mode is Mode.BLOCK_ON_ERROR and job_ref.group is not None
