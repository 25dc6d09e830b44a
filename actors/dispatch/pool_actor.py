"""The Ray face of a dispatch pool. What it holds in memory, it can read again."""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog

from actors.dispatch.dispatcher import LEASE_GRACE, Dispatcher
from actors.dispatch.job_loader import JobLoader
from actors.dispatch.job_queue import JobQueue
from actors.dispatch.pool_services import PoolServices
from actors.dispatch.start_queue import PoolLimits
from actors.runtime.actor import Process
from actors.runtime.names import DISPATCH
from core.dispatch.job import ANCHOR, JobKey, decode_job_refs
from core.dispatch.pool import PoolStatus
from core.shared.config import Config
from core.shared.tsid import made_at
from services.shared.process import freeze_gc, owner_name, sync_until_done
from storage.dispatch import pools
from storage.dispatch.pools import PoolRow
from storage.postgres.clock import DatabaseClock
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import PoolOptions, open_pool

log = structlog.get_logger("dispatch")

CLEANUP_INTERVAL = 60.0


class _RealEnvironment:
    """The real time and chance."""

    def __init__(self) -> None:
        self.clock = DatabaseClock(time.monotonic, time.time)
        self.now = self.clock.now
        self.monotonic = time.monotonic
        self.chance = random.random


class DispatchActor:
    """Delivers the jobs of one pool, at its rate."""

    def __init__(self, name: str, config: Config) -> None:
        self._process = Process(name, config)
        self._config = config
        self._pool_no = int(name.removeprefix(DISPATCH))
        self._environment = _RealEnvironment()
        self._row: PoolRow | None = None
        self._looked_at = self._environment.monotonic()
        self._starting: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._rereading: set[asyncio.Task[None]] = set()
        self._stack = contextlib.AsyncExitStack()

    async def offer(self, jobs: bytes) -> None:
        """Take over jobs that were stored just now."""
        await self._started()
        self._reader.offer(decode_job_refs(jobs))
        self._dispatcher.wake()

    async def refresh(self) -> None:
        """Look at Postgres now: somebody changed something there."""
        await self._started()
        await self._rescan()

    async def report(self) -> dict[str, Any]:
        """Where it runs and how it fares. The first question starts it."""
        begun = self._begin()
        stats: dict[str, Any] = {"pool_no": self._pool_no}
        if begun.done() and self._row is not None:
            row = self._row
            stats |= {
                "tenant": row.tenant,
                "code": row.code,
                "status": row.status.value,
                "concurrency": row.concurrency,
                "rate_limit": row.rate_limit,
                "capacity": self._config.dispatch_buffer,
                "behind": self._reader.is_behind,
                "looked_ago": self._environment.monotonic() - self._looked_at,
                "oldest_head_age": self._oldest_age(),
                **self._dispatcher.snapshot(),
            }
        return {**self._process.describe(), "kind": "dispatch", "stats": stats}

    def _oldest_age(self) -> float:
        """For how many seconds the job waits that has waited longest of those in memory."""
        oldest = self._dispatcher.scheduler.oldest_id()
        return 0.0 if oldest is None else max(0.0, self._environment.now() - made_at(oldest))

    async def in_flight(self, tenant: int, limit: int) -> list[dict[str, Any]]:
        """A tenant's jobs that are under way."""
        await self._started()
        return self._dispatcher.in_flight(tenant, limit)

    async def let_go(self, jobs: list[tuple[int, str]]) -> None:
        """People ended these: forget them, and read what is true of their groups."""
        await self._started()
        for tenant, job_id in jobs:
            self._dispatcher.scheduler.drop(JobKey(tenant, job_id), self._environment.now())
        self._dispatcher.wake()

    async def breakers(self, tenant: int) -> list[dict[str, Any]]:
        """How a tenant's targets fare."""
        await self._started()
        return self._dispatcher.targets.snapshot(tenant)

    async def reset_breaker(self, tenant: int, target: str | None) -> int:
        """Try a tenant's targets again now, or one of them; how many."""
        await self._started()
        reset = self._dispatcher.targets.reset(tenant, target)
        for target_key in reset:
            self._dispatcher.scheduler.reopen(target_key)
        self._dispatcher.wake()
        return len(reset)

    async def _started(self) -> None:
        await asyncio.shield(self._begin())

    def _begin(self) -> "asyncio.Task[None]":
        if self._starting is None:
            self._starting = self._process.launch(self._start())
        return self._starting

    async def _start(self) -> None:
        config, environment = self._config, self._environment
        options = PoolOptions(dsn=config.dsn, name=self._process.name, max_size=4)
        writers = await open_pool(options, environment.clock.measure)
        await sync_until_done(environment.clock, writers)
        owner = owner_name(self._process.name)
        queue = JobQueue(writers, self._pool_no, owner, LEASE_GRACE)
        services = await self._stack.enter_async_context(
            PoolServices(config, writers, environment.clock)
        )
        self._dispatcher = Dispatcher(
            queue,
            services.send,
            environment,
            target_limit=config.target_limit,
            listener=services,
        )
        self._dispatcher.limit_bytes(config.dispatch_bytes)
        self._dispatcher.prepare = services.prepare
        self._reader = JobLoader(
            queue,
            self._dispatcher.scheduler,
            config.dispatch_buffer,
            environment.now,
            environment.monotonic,
            config.stale_after,
        )
        self._queue, self._database = queue, writers
        await self._process.retry_while_away(self._read_limits)
        await self._process.retry_while_away(self._remember_starts)
        # Before the first job is taken: what people hold back stays where it is.
        await self._process.retry_while_away(self._reader.park)
        services.on_pools_changed(partial(self._do_soon, self._read_limits))
        services.on_targets_changed(partial(self._do_soon, self._rescan_targets))
        self._process.measure("claim", lambda: self._dispatcher.claiming.stalled_seconds)
        self._process.measure("write_results", lambda: self._dispatcher.writing.stalled_seconds)
        self._process.spawn(services.run_forever())
        self._process.spawn(self._run())
        self._process.every(config.dispatch_poll, self._rescan, "look")
        self._process.every(CLEANUP_INTERVAL, self._tidy)
        self._process.every(5.0, partial(environment.clock.sync, writers))
        freeze_gc()

    async def _run(self) -> None:
        """Round after round; Postgres may go away in between."""
        while True:
            try:
                await self._dispatcher.run_forever(self._reader)
            except SERVER_ERRORS as error:
                log.warning("dispatch.database_away", error=type(error).__name__)
                await asyncio.sleep(0.2)

    async def _rescan(self) -> None:
        async with self._looking:
            await self._read_limits()
            self._dispatcher.counters.expired += await self._reader.expire()
            await self._reader.rescan()
            self._looked_at = self._environment.monotonic()
        self._dispatcher.wake()

    async def _read_limits(self) -> None:
        row = await pools.read_no(self._database, self._pool_no)
        limits = PoolLimits(is_active=False)
        if row is not None:
            # An archived pool that was given something at the last moment delivers it.
            is_active = row.status is not PoolStatus.SUSPENDED
            is_shared = row.tenant == ANCHOR
            limits = PoolLimits(row.concurrency, row.rate_limit, is_active, is_shared)
        self._row = row
        if limits != self._dispatcher.limits:
            log.info("dispatch.terms", pool=self._pool_no, active=limits.is_active)
            self._dispatcher.set_limits(limits)

    async def _remember_starts(self) -> None:
        """Keep to the rate over a restart, where there is one."""
        if self._dispatcher.limits.rate_limit is not None:
            self._dispatcher.charge_recent_starts(await self._queue.recent_starts())

    def _do_soon(self, read: Callable[[], Awaitable[None]]) -> None:
        """Somebody changed a pool or a target: see whether it is one of ours, at once."""
        task = asyncio.create_task(self._do(read))
        self._rereading.add(task)
        task.add_done_callback(self._rereading.discard)

    async def _do(self, read: Callable[[], Awaitable[None]]) -> None:
        with contextlib.suppress(*SERVER_ERRORS):
            await read()

    async def _rescan_targets(self) -> None:
        async with self._looking:
            await self._reader.rescan_targets()
        self._dispatcher.wake()

    async def _tidy(self) -> None:
        self._dispatcher.targets.forget_idle()
