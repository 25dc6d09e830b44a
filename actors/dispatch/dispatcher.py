"""A pool's mind: takes what may go, sends it at the pool's pace, and writes what became of it.

A job's place is free as soon as its answer is here; its group goes on when that is committed, so
that after a crash nothing is sent again behind what came after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from actors.dispatch.counters import Tally
from actors.dispatch.job_loader import GROUPS_AT_ONCE, Reader
from actors.dispatch.ports import Listener, Queue, World
from actors.dispatch.result_writer import Kept, Outcome, Scribe
from actors.dispatch.skipped import crashed, given_back, put_off, without_sending
from actors.dispatch.start_queue import AHEAD, Starter, Terms
from actors.dispatch.targets import Sites
from core.dispatch.attempt import Sent, Step, decide
from core.dispatch.claim import Claimed
from core.dispatch.job import JobKey, JobStatus, Mode, Pointer
from core.dispatch.scheduler import Board
from core.dispatch.target import Site, site_at
from core.shared.backoff import backoff
from services.shared.progress import Progress
from storage.dispatch.job_queue import Result
from storage.postgres.error_class import SERVER_ERRORS

log = structlog.get_logger("dispatch")

UNWRITTEN = 2_000
# A job is ours for its time-out and so many seconds more; it may wait for its start a part of them.
GRACE = 15.0
# Rounds that follow each other at once would each carry a job or two.
BREATH = 0.002
# A full board of which nothing can go is thinned, at most so often; jobs that are due soon stay.
THIN_EVERY = 0.5
SOON = 15.0


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
        listener: Listener,
    ) -> None:
        self.board = Board()
        self.tally = Tally(world.monotonic)
        self.sites = Sites(target_limit, world.monotonic)
        self._queue = queue
        self._send = send
        self._world = world
        self._listener = listener
        # What is to be done about jobs before they are started, so that none has to wait then.
        self.prepare: Callable[[Sequence[Claimed]], Awaitable[None]] | None = None
        self._starter = Starter(self._begin, self._give_back, world)
        self._under_way: dict[JobKey, _Delivery] = {}
        # What each job brings that is ours, until it is written.
        self._sizes: dict[JobKey, int] = {}
        self._lost: list[JobKey] = []
        self.claiming = Progress(world.monotonic)
        self.writing = Progress(world.monotonic)
        self._scribe = Scribe(queue.finish, self._written, world.chance, self.writing)
        self._thins_at = world.monotonic()
        self._is_crowded = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    @property
    def terms(self) -> Terms:
        """What the pool may do now."""
        return self._starter.terms

    def set_terms(self, terms: Terms) -> None:
        """Go on under other terms."""
        self.sites.shared_places = terms.concurrency if terms.is_shared else None
        self._starter.set_terms(terms)
        self.wake()

    def hold_at_most(self, size: int) -> None:
        """Take no further job while those that are ours bring so many bytes."""
        self._starter.most_bytes = size

    def remember(self, starts: Sequence[float]) -> None:
        """Deliveries that whoever was here before began so many seconds ago count as ours."""
        self._starter.remember(starts)

    async def run_forever(self, reader: Reader) -> None:
        """Round after round, as long as there is something to do; else until something happens."""
        while True:
            self._woken.clear()
            for site in self.sites.reopened():
                self.board.release(site)
            await self._find_out(reader)
            jobs = self._pick()
            if jobs:
                await self._claim(jobs)
                if len(jobs) < self.terms.concurrency // 4:
                    await asyncio.sleep(BREATH)
            elif not (self.board.starved(1) or await reader.read_on() or self._thin(reader)):
                self._set_alarm()
                self.claiming.done()
                await self._woken.wait()

    async def close(self) -> None:
        """Stop; what is under way is sent again by whoever comes next."""
        self._starter.close()
        if self._alarm is not None:
            self._alarm.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._scribe.close()

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
            "active": self._starter.active,
            "buffered": len(self.board),
            "waiting": len(self.board) - len(self._under_way),
            "unwritten": len(self._scribe),
            "blocked_groups": sum(1 for _ in self.board.blocked()),
            "groups": sum(1 for _ in self.board.groups()),
            "breakers": self.sites.states(),
            "rate_limited": self._starter.rate_limited,
            **self.tally.snapshot(),
        }

    async def _find_out(self, reader: Reader) -> None:
        """Read what is true of groups and jobs that were not as they seemed."""
        await reader.settle(self.board.starved(GROUPS_AT_ONCE))
        if self._lost:
            lost = self._lost.copy()
            await reader.find(lost)
            del self._lost[: len(lost)]

    def _room(self) -> int:
        """How many more may be taken now."""
        return 0 if len(self._scribe) >= UNWRITTEN else self._starter.room

    def _thin(self, reader: Reader) -> bool:
        """Let go of jobs that cannot go, if they keep others off the board; whether there were."""
        is_idle = self._room() > 0 and not self.board.has_listed
        self._is_crowded = is_idle and reader.is_behind
        monotonic, now = self._world.monotonic(), self._world.now()
        if not self._is_crowded or monotonic < self._thins_at:
            return False
        self._thins_at = monotonic + THIN_EVERY
        gone = self.board.thin(now, now + SOON, reader.limit // 2, self.sites.is_left_alone)
        if gone:
            log.debug("dispatch.thinned", jobs=gone)
            reader.come_back()
        return gone > 0

    def _pick(self) -> list[Pointer]:
        now, jobs = self._world.now(), []
        for _ in range(self._room()):
            job = self._next(now) if self._starter.places > 0 else None
            if job is None:
                break
            self._sizes[job.key] = job.size
            self._starter.bytes += job.size
            site = site_at(job.tenant, job.target)
            ticket = self.sites.begin(site)
            began = self._world.monotonic()
            self._under_way[job.key] = _Delivery(job, ticket, site, began)
            jobs.append(job)
        return jobs

    def _next(self, now: float) -> Pointer | None:
        """The next job that may go, also of tenants that had their share until now."""
        while True:
            job = self.board.take(now, self.sites.allows)
            if job is not None:
                return job
            site = self.sites.next_in_turn()
            if site is None:
                return None
            self.board.release(site)

    async def _claim(self, jobs: list[Pointer]) -> None:
        keys = [job.key for job in jobs]
        asked_at = self._world.monotonic()
        self.claiming.waits()
        try:
            claimed = await self._queue.claim(keys)
        except SERVER_ERRORS as error:
            log.warning("dispatch.database_away", error=type(error).__name__)
            await asyncio.sleep(backoff(2, base=0.05, cap=1.0, jitter=self._world.chance()))
            claimed = []  # or they are ours without our knowing: that is to be read
        else:
            self.claiming.done()
        await self._make_ready(claimed)
        won = {JobKey(job.tenant, job.job_id) for job in claimed}
        for key in keys:
            if key not in won:
                self._lose(key)
        now, ours = self._world.now(), []
        for job in claimed:
            step = without_sending(job, now)
            if step is not None:
                self._end(job, step, None)
            elif self._stays(job):
                ours.append(job)
        self._starter.put(ours, asked_at)

    def _stays(self, job: Claimed) -> bool:
        """Whether a job is ours at the target that it has now; one that takes none is given back.

        Somebody may have given its subscription another since it came onto the board.
        """
        delivery = self._under_way[JobKey(job.tenant, job.job_id)]
        site = site_at(job.tenant, job.target_url)
        if site == delivery.site:
            return True
        if not self.sites.allows(site):
            self._give_back(job)
            return False
        self.sites.end(delivery.site, delivery.ticket, None)
        self.board.release(delivery.site)
        delivery.site, delivery.ticket = site, self.sites.begin(site)
        return True

    def _begin(self, job: Claimed) -> bool:
        """Send a job, unless its target has been left alone since it was taken."""
        if not self._starter.has_ready:
            self.wake()  # it was the last: there is room for the next
        if self.sites.is_open(site_at(job.tenant, job.target_url)):
            self._give_back(job)
            return False
        task = asyncio.create_task(self._deliver(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _give_back(self, job: Claimed) -> None:
        self._end(job, given_back(job), None)

    async def _make_ready(self, jobs: Sequence[Claimed]) -> None:
        if self.prepare is None:
            return
        try:
            await self.prepare(jobs)
        except Exception as error:  # whoever sends them says what is wrong, job by job
            log.warning("dispatch.not_prepared", error=type(error).__name__)

    async def _deliver(self, job: Claimed) -> None:
        try:
            sent = await self._send(job)
        except SERVER_ERRORS as error:
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
            age=self._world.now() - job.created_at,
        )
        self._end(job, step, sent)
        self._starter.ended(sent.seconds)
        self.wake()

    def _end(self, job: Claimed, step: Step, sent: Sent | None) -> None:
        key = JobKey(job.tenant, job.job_id)
        self._let_go(key, sent)
        self.tally.count(step, sent)
        self._scribe.add(job, Result(key, job.send_no, step, sent))

    def _let_go(self, key: JobKey, sent: Sent | None) -> None:
        """Free the place that a job had at its target. It is under way until it is written."""
        delivery = self._under_way[key]
        if self.sites.end(delivery.site, delivery.ticket, sent):
            self._tell(self._listener.left_alone, delivery.site)
        self.board.release(delivery.site)
        if sent is None:
            self._under_way.pop(key, None)

    def _is_no_more(self, key: JobKey) -> None:
        """What it brings is not in our memory any more."""
        self._starter.bytes -= self._sizes.pop(key, 0)

    def _lose(self, key: JobKey) -> None:
        """Postgres did not let us have it. Why, is to be read there."""
        self._is_no_more(key)
        self._let_go(key, None)
        self._lost.append(key)
        self.board.lose(key, self._world.now())

    def _written(self, outcomes: Sequence[Outcome], kept: Kept) -> None:
        """These are committed: their groups go on."""
        now = self._world.now()
        for job, result in outcomes:
            self._is_no_more(result.key)
            delivery = self._under_way.pop(result.key, None)
            due = kept.get(result.key)
            if due is None:  # somebody else took it meanwhile
                self._lost.append(result.key)
                self.board.lose(result.key, now)
                continue
            mode = delivery.pointer.mode if delivery else None
            if result.step.status is JobStatus.QUEUED:
                self.board.retry(result.key, due, now, target=job.target_url)
            elif result.step.status is JobStatus.ERROR and mode is Mode.BLOCK_ON_ERROR:
                self._hold(result.key, delivery, now)
            else:
                self.board.finish(result.key, now)
            self._tell(self._listener.heard, job, result.step, result.sent)
        self.wake()

    def _tell(self, listener: Callable[..., None], *what: object) -> None:
        try:
            listener(*what)
        except Exception:  # whoever listens must not break the pool
            log.exception("dispatch.listener_failed")

    def _hold(self, key: JobKey, delivery: _Delivery | None, now: float) -> None:
        if delivery is not None and delivery.pointer.group is not None:
            self.board.stick(key, now)
        else:
            self.board.finish(key, now)

    def _set_alarm(self) -> None:
        """Be woken when a job can be taken or a target be tried.

        When a place becomes free, or the last of those that are ready starts, we are told.
        """
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waits, now = [], self._world.monotonic()
        opening, due = self.sites.next_opening, self.board.next_due()
        if opening is not None:
            waits.append(opening - now)
        if self._is_crowded:
            waits.append(self._thins_at - now)
        is_free = self._starter.places > 0 and not self._starter.has_ready
        if is_free and (self.board.has_listed or due is not None):
            until_due = 0.0 if due is None else due - self._world.now()
            first = 0.0 if self.board.has_listed else until_due
            waits.append(max(first, self._starter.pause - AHEAD))
        if waits:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(max(0.001, min(waits)), self.wake)
