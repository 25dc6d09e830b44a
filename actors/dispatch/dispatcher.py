"""A pool's mind: takes what may go, sends it at the pool's pace, and writes what became of it.

A job's place is free as soon as its answer is here; its group goes on when that is committed, so
that after a crash nothing is sent again behind what came after it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from actors.dispatch.reader import GROUPS_AT_ONCE, Reader
from actors.dispatch.sites import Sites
from actors.dispatch.tally import Tally
from core.backoff import backoff
from core.dispatch.board import Board, Site, site_of
from core.dispatch.claimed import Claimed
from core.dispatch.job import JobKey, JobStatus, Mode, Pointer
from core.dispatch.outcome import ErrorType, Sent, Step, decide
from core.dispatch.outcome import Result as Came
from core.dispatch.pace import Pace
from storage.dispatch_queue import Result

log = structlog.get_logger("dispatch")

CLAIM_AT_ONCE = 500
WRITE_AT_ONCE = 1_000
UNWRITTEN = 2_000
# A job may be taken so long before the pace lets it go.
AHEAD = 0.25
GRACE = 15.0
# Seconds until a job is tried again that we were not able to send.
OWN_TROUBLE = 2.0
# Rounds that follow each other at once would each carry a job or two.
BREATH = 0.002


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


@dataclass(slots=True)
class Terms:
    """What a pool may do now; changed while it runs."""

    concurrency: int = 10
    rate_limit: int | None = None
    is_active: bool = True


@dataclass(slots=True)
class _Delivery:
    """A job in our hands."""

    pointer: Pointer
    ticket: int
    site: Site
    began: float


class Dispatcher:
    """Sends the jobs of one pool."""

    def __init__(
        self,
        queue: Queue,
        send: Callable[[Claimed], Awaitable[Sent]],
        world: World,
        *,
        target_limit: int,
        transient: tuple[type[Exception], ...],
        listener: Listener,
    ) -> None:
        self.board = Board()
        self.terms = Terms()
        self.tally = Tally(world.monotonic)
        self.sites = Sites(target_limit, world.monotonic)
        self._queue = queue
        self._send = send
        self._world = world
        self._transient = transient
        self._listener = listener
        self._pace = Pace(None)
        self._under_way: dict[JobKey, _Delivery] = {}
        self._active = 0
        self._ready: deque[Claimed] = deque()
        self._starting: asyncio.TimerHandle | None = None
        self._lost: list[JobKey] = []
        self._results: list[tuple[Claimed, Result]] = []
        self._writing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    def set_terms(self, terms: Terms) -> None:
        """Go on under other terms."""
        self.terms = terms
        self._pace.resize(terms.rate_limit)
        self.wake()

    async def run_forever(self, reader: Reader) -> None:
        """Round after round, as long as there is something to do; else until something happens."""
        while True:
            self._woken.clear()
            for site in self.sites.reopened():
                self.board.release(site)
            await reader.settle(self.board.starved(GROUPS_AT_ONCE))
            if self._lost:
                lost, self._lost = self._lost, []
                await reader.find(lost)
            jobs = self._pick()
            if jobs:
                await self._claim(jobs)
                if len(jobs) < self.terms.concurrency // 4:
                    await asyncio.sleep(BREATH)
            elif not await reader.read_on():
                self._set_alarm()
                await self._woken.wait()

    async def close(self) -> None:
        """Stop; what is under way is sent again by whoever comes next."""
        for task in [*self._tasks, *([self._writing] if self._writing else [])]:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def in_flight(self, tenant: int, limit: int) -> list[dict[str, Any]]:
        """A tenant's jobs that are under way, longest first."""
        now = self._world.monotonic()
        own = [one for one in self._under_way.values() if one.pointer.tenant == tenant]
        return [
            {
                "job_id": one.pointer.job_id,
                "target": one.pointer.target,
                "group": one.pointer.group,
                "seconds": now - one.began,
            }
            for one in sorted(own, key=lambda one: one.began)[:limit]
        ]

    def snapshot(self) -> dict[str, Any]:
        """How it stands."""
        return {
            "active": self._active,
            "buffered": len(self.board),
            "waiting": len(self.board) - len(self._under_way),
            "unwritten": len(self._results),
            "blocked_groups": sum(1 for _ in self.board.blocked()),
            "groups": sum(1 for _ in self.board.groups()),
            "breakers": self.sites.states(),
            **self.tally.snapshot(),
        }

    def _room(self) -> int:
        """How many more may be taken now."""
        if not self.terms.is_active or len(self._results) >= UNWRITTEN:
            return 0
        room = min(CLAIM_AT_ONCE, self.terms.concurrency - self._active - len(self._ready))
        limit = self._pace.limit
        if limit is None or room <= 0:
            return room
        if self._pace.wait(self._world.monotonic()) > AHEAD:
            return 0
        return min(room, max(1, int(limit / 60 * AHEAD)) - len(self._ready))

    def _pick(self) -> list[Pointer]:
        now, jobs = self._world.now(), []
        for _ in range(self._room()):
            job = self.board.take(now, self.sites.allows)
            if job is None:
                break
            site = site_of(job)
            ticket = self.sites.begin(site)
            began = self._world.monotonic()
            self._under_way[job.key] = _Delivery(job, ticket, site, began)
            jobs.append(job)
        return jobs

    async def _claim(self, jobs: list[Pointer]) -> None:
        keys = [job.key for job in jobs]
        try:
            claimed = await self._queue.claim(keys)
        except self._transient as error:
            log.warning("dispatch.database_away", error=type(error).__name__)
            await asyncio.sleep(backoff(2, base=0.05, cap=1.0, jitter=self._world.chance()))
            # They may be ours without our knowing: their lease has to end first.
            until = self._world.now() + GRACE
            for key in keys:
                self._let_go(key, None)
                self.board.postpone(key, until, self._world.now())
            return
        won = {JobKey(job.tenant, job.job_id) for job in claimed}
        for key in keys:
            if key not in won:
                self._lose(key)
        self._ready.extend(claimed)
        self._start()

    def _start(self) -> None:
        """Send what is ready, as the pace allows."""
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        while self._ready:
            now = self._world.monotonic()
            pause = self._pace.wait(now)
            if pause > 0:
                self.tally.rate_limited += 1
                loop = asyncio.get_running_loop()
                self._starting = loop.call_later(pause, self._start)
                return
            self._pace.take(now)
            job = self._ready.popleft()
            self._active += 1
            task = asyncio.create_task(self._deliver(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.wake()

    async def _deliver(self, job: Claimed) -> None:
        key = JobKey(job.tenant, job.job_id)
        if 0 < job.expires_at <= self._world.now():
            sent, step = None, expired(job)
        else:
            try:
                sent = await self._send(job)
            except self._transient as error:
                log.warning("dispatch.database_away", error=type(error).__name__)
                sent = put_off(self._world.now())
            except Exception as error:  # a job that breaks us must not break the pool
                log.exception("dispatch.send_crashed", job=job.job_id, tenant=job.tenant)
                sent = crashed(error, self._world.now())
            step = decide(
                sent,
                attempt_count=job.attempt_count,
                max_retries=job.max_retries,
                jitter=self._world.chance(),
            )
        self._active -= 1
        self._let_go(key, sent)
        self.tally.count(step, sent)
        self._results.append((job, Result(key, job.send_no, step, sent)))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        self.wake()

    def _let_go(self, key: JobKey, sent: Sent | None) -> None:
        """Free the place that a job had at its target. It is under way until it is written."""
        delivery = self._under_way[key]
        if self.sites.end(delivery.site, delivery.ticket, sent):
            self._listener.left_alone(delivery.site)
        self.board.release(delivery.site)
        if sent is None:
            self._under_way.pop(key, None)

    def _lose(self, key: JobKey) -> None:
        """Postgres did not let us have it. Why, is to be read there."""
        self._let_go(key, None)
        self._lost.append(key)
        self.board.lose(key, self._world.now())

    async def _write(self) -> None:
        """One statement for all that gathered while the last one ran."""
        attempt = 0
        try:
            while self._results:
                batch = self._results[:WRITE_AT_ONCE]
                try:
                    kept = await self._queue.finish([result for _, result in batch])
                except self._transient as error:
                    log.warning("dispatch.database_away", error=type(error).__name__)
                    chance = self._world.chance()
                    await asyncio.sleep(backoff(attempt, base=0.05, cap=1.0, jitter=chance))
                    attempt += 1
                    continue
                attempt = 0
                del self._results[: len(batch)]
                self._apply(batch, kept)
                self.wake()
        finally:
            self._writing = None

    def _apply(self, batch: list[tuple[Claimed, Result]], kept: dict[JobKey, float]) -> None:
        now = self._world.now()
        for job, result in batch:
            delivery = self._under_way.pop(result.key, None)
            due = kept.get(result.key)
            if due is None:  # somebody else took it meanwhile
                self._lost.append(result.key)
                self.board.lose(result.key, now)
                continue
            mode = delivery.pointer.mode if delivery else None
            if result.step.status is JobStatus.QUEUED:
                self.board.retry(result.key, due, now)
            elif result.step.status is JobStatus.ERROR and mode is Mode.BLOCK_ON_ERROR:
                self._hold(result.key, delivery, now)
            else:
                self.board.finish(result.key, now)
            self._listener.heard(job, result.step, result.sent)

    def _hold(self, key: JobKey, delivery: _Delivery | None, now: float) -> None:
        if delivery is not None and delivery.pointer.group is not None:
            self.board.stick(key, now)
        else:
            self.board.finish(key, now)

    def _set_alarm(self) -> None:
        """Be woken when the next job is due, a target may be tried, or the pace goes on."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waits = []
        due, opening = self.board.next_due(), self.sites.next_opening
        if due is not None:
            waits.append(due - self._world.now())
        if opening is not None:
            waits.append(opening - self._world.monotonic())
        if self.board.has_listed and self._pace.limit is not None:
            waits.append(self._pace.wait(self._world.monotonic()) - AHEAD)
        if waits:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(0.001, min(waits)), self.wake)


def expired(job: Claimed) -> Step:
    """Its time is over before it was sent."""
    return Step(
        status=JobStatus.EXPIRED,
        attempt_count=job.attempt_count,
        attempt_number=job.attempt_count,
        error="not delivered before it expired",
    )


def put_off(now: float) -> Sent:
    """We could not begin: that is not the job's fault, nor the target's."""
    return Sent(
        status=Came.DEFERRED, delay=OWN_TROUBLE, error="put off by our own trouble", began_at=now
    )


def crashed(error: Exception, now: float) -> Sent:
    """We failed, not the target."""
    return Sent(
        status=Came.CONNECTION_ERROR,
        error_type=ErrorType.TRANSIENT,
        error=f"the delivery could not be made: {type(error).__name__}",
        began_at=now,
    )
