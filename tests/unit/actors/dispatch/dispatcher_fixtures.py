"""A pool on a Postgres of Python, with receivers that are scripts. Time is simulated."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from structlog.testing import capture_logs

from actors.dispatch.dispatcher import Dispatcher, DispatcherOptions, PoolLimits
from core.dispatch.attempt import AttemptStatus as Came
from core.dispatch.attempt import DeliveryAttempt, ErrorType, JobTransition
from core.dispatch.claim import ClaimedJob
from core.dispatch.job import JobRef, JobStatus
from tests.simulation.clockwork import simulate
from tests.unit.actors.dispatch.job_table import FakeJobQueue, FakeJobRow, clock

OK = DeliveryAttempt(status=Came.SUCCESS, code=200)
BAD = DeliveryAttempt(
    status=Came.SERVER_ERROR, error_type=ErrorType.TRANSIENT, code=500, counts_as_failure=True
)
NO = DeliveryAttempt(
    status=Came.CLIENT_ERROR, error_type=ErrorType.PERMANENT, code=400, error="HTTP 400"
)
Script = Callable[[ClaimedJob], DeliveryAttempt]


def later(seconds: float) -> DeliveryAttempt:
    return DeliveryAttempt(status=Came.DEFERRED, code=429, delay=seconds)


@dataclass
class PoolScenario:
    """A pool, and all that it sends."""

    postgres: FakeJobQueue = field(default_factory=FakeJobQueue)
    limit: int = 10_000
    target_limit: int = 100
    max_bytes: int = 1_000_000
    limits: PoolLimits = field(default_factory=lambda: PoolLimits(concurrency=10))
    scripts: dict[str, Script] = field(default_factory=dict)
    takes: float = 0.01
    skew: float = 0.0
    listens: bool = True
    sent: list[str] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    job_finished: list[tuple[str, JobStatus]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    under_way: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    fullest: int = 0
    end: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dispatcher = Dispatcher(
            self.postgres,
            self.Services(self),
            self,
            DispatcherOptions(
                target_limit=self.target_limit, buffer=self.limit, max_bytes=self.max_bytes
            ),
        )
        self.dispatcher.set_limits(self.limits)
        self.reader = self.dispatcher._loader
        self.scheduler = self.dispatcher._scheduler
        pick = self.dispatcher._pick

        def counted() -> list[JobRef]:
            self.rounds += 1
            self.fullest = max(self.fullest, len(self.scheduler))
            return pick()

        self.dispatcher._pick = counted  # to notice what spins

    monotonic = staticmethod(clock)

    def now(self) -> float:
        return clock() + self.skew

    def chance(self) -> float:
        return 0.5

    @dataclass
    class Services:
        scene: "PoolScenario"

        async def prepare(self, jobs: Sequence[ClaimedJob]) -> None:
            pass

        async def send(self, job: ClaimedJob) -> DeliveryAttempt:
            return await self.scene.send(job)

        def job_finished(
            self, job: ClaimedJob, step: JobTransition, sent: DeliveryAttempt | None
        ) -> None:
            self.scene.job_finished.append((job.job_id, step.status))
            if not self.scene.listens:
                raise RuntimeError("not listening")

        def breaker_opened(self, target_key: tuple[int, str]) -> None:
            self.scene.alone.append(target_key[1])
            if not self.scene.listens:
                raise RuntimeError("not listening")

    async def send(self, job: ClaimedJob) -> DeliveryAttempt:
        self.sent.append(job.job_id)
        self.began.append(clock())
        for name in ("", job.target_url):
            self.under_way[name] += 1
            self.most[name] = max(self.most[name], self.under_way[name])
        try:
            await asyncio.sleep(self.takes)
            return self.scripts.get(job.target_url, lambda _: OK)(job)
        finally:
            for name in ("", job.target_url):
                self.under_way[name] -= 1

    @property
    def log(self) -> list[tuple[float, str]]:
        """When each was sent."""
        return list(zip(self.began, self.sent, strict=True))

    def post(self, *rows: FakeJobRow) -> None:
        """Store jobs and hand them over."""
        self.dispatcher.offer(self.postgres.store(*rows))

    async def rescan(self) -> None:
        await self.reader.rescan()
        self.dispatcher._wake()

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        tasks = [asyncio.create_task(work) for work in (self._run(), self._look_forever())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.dispatcher.close()

    async def until(self, what: Callable[[], bool], within: float = 60.0) -> float:
        """Wait for it; how long it took."""
        began = clock()
        while not what():
            assert clock() < began + within, self.postgres.statuses()
            await asyncio.sleep(max(0.01, within / 1_000))
        return clock() - began

    async def done(self, within: float = 60.0) -> float:
        """Wait until no job is open; how long it took."""
        return await self.until(
            lambda: not any(row.is_open for row in self.postgres.rows.values()), within
        )

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self.dispatcher.run_forever()
            await asyncio.sleep(0.2)

    async def _look_forever(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self.rescan()
            await asyncio.sleep(2.0)


def run_scenario(story: Callable[[PoolScenario], Awaitable[None]], **options: Any) -> PoolScenario:
    """Play it with a pool that runs."""

    async def run() -> PoolScenario:
        scene = PoolScenario(**options)
        async with scene.running():
            await story(scene)
            await asyncio.sleep(0.1)  # for the last result to be told
            scene.end = scene.dispatcher.snapshot()
        return scene

    with capture_logs():
        return simulate(run())
