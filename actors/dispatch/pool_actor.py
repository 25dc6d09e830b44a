"""The Ray actor of a dispatch pool; all its state can be read from Postgres again."""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog

from actors.dispatch.dispatcher import LEASE_GRACE, Dispatcher, DispatcherOptions
from actors.dispatch.pool_services import PoolServices
from actors.dispatch.start_queue import PoolLimits
from actors.runtime.actor import Actor
from actors.runtime.names import DISPATCH
from core.dispatch.job import ANCHOR, JobKey, decode_job_refs
from core.dispatch.pool import PoolStatus
from core.shared.config import Config
from services.shared.process import BackgroundTasks, owner_name
from services.shared.retry import skip_during_outage
from storage.dispatch import pools
from storage.dispatch.job_queue import JobQueue
from storage.dispatch.pools import PoolRow
from storage.postgres.change_notifications import ChangeTopic

log = structlog.get_logger("dispatch")

CLEANUP_INTERVAL = 60.0


class DispatchActor(Actor[Dispatcher]):
    """Delivers the jobs of one pool, at its rate."""

    kind = "dispatch"

    def __init__(self, name: str, config: Config) -> None:
        super().__init__(name, config)
        self._pool_no = int(name.removeprefix(DISPATCH))
        self._row: PoolRow | None = None
        self._rereading = BackgroundTasks()
        self._stack = contextlib.AsyncExitStack()

    async def offer(self, jobs: bytes) -> None:
        (await self._started()).offer(decode_job_refs(jobs))

    async def refresh(self) -> None:
        """Read Postgres again because an operator has changed something."""
        await self._started()
        await self._rescan()

    async def in_flight(self, tenant: int, limit: int) -> list[dict[str, Any]]:
        return (await self._started()).in_flight(tenant, limit)

    async def let_go(self, jobs: list[tuple[int, str]]) -> None:
        (await self._started()).drop(JobKey(*job) for job in jobs)

    async def breakers(self, tenant: int) -> list[dict[str, Any]]:
        return (await self._started()).breakers(tenant)

    async def reset_breaker(self, tenant: int, target: str | None) -> int:
        return (await self._started()).reset_breakers(tenant, target)

    def _stats(self) -> dict[str, Any]:
        row, dispatcher = self._row, self._hosted
        if row is None or dispatcher is None:
            return {"pool_no": self._pool_no}
        return {
            "pool_no": self._pool_no,
            "tenant": row.tenant,
            "code": row.code,
            "status": row.status.value,
            "concurrency": row.concurrency,
            "rate_limit": row.rate_limit,
            "capacity": self._config.dispatch_buffer,
            "oldest_head_age": dispatcher.oldest_age(),
            **dispatcher.snapshot(),
        }

    async def _start(self) -> Dispatcher:
        config, pool = self._config, await self._open_database(4)
        self._queue = JobQueue(pool, self._pool_no, owner_name(self._name), LEASE_GRACE)
        services = PoolServices(config, pool, self._environment.clock)
        await self._stack.enter_async_context(services)
        dispatcher = self._dispatcher = Dispatcher(
            self._queue,
            services,
            self._environment,
            DispatcherOptions(
                target_limit=config.target_limit,
                buffer=config.dispatch_buffer,
                max_bytes=config.dispatch_bytes,
                read_all_every=config.stale_after,
            ),
        )
        await self._retrying(self._read_limits)
        await self._retrying(self._charge_recent_starts)
        await self._retrying(dispatcher.load_parked_groups)
        on_change = services.changes.on_change
        on_change(ChangeTopic.POOLS, partial(self._do_soon, self._read_limits))
        on_change(ChangeTopic.TARGETS, partial(self._do_soon, dispatcher.rescan_targets))
        self._measure("claim", lambda: dispatcher.claiming.stalled_seconds)
        self._measure("write_results", lambda: dispatcher.writing.stalled_seconds)
        self._spawn(services.run_forever())
        self._spawn(self._retrying(dispatcher.run_forever))
        self._every(config.dispatch_poll, self._rescan, "look")
        self._every(CLEANUP_INTERVAL, dispatcher.forget_idle_targets)
        return dispatcher

    async def _rescan(self) -> None:
        await self._read_limits()
        await self._dispatcher.rescan()

    async def _read_limits(self) -> None:
        row = await pools.read_no(self._database, self._pool_no)
        limits = PoolLimits(is_active=False)
        if row is not None:
            # An archived pool still delivers jobs that it got at the last moment.
            is_active = row.status is not PoolStatus.SUSPENDED
            is_shared = row.tenant == ANCHOR
            limits = PoolLimits(row.concurrency, row.rate_limit, is_active, is_shared)
        self._row = row
        if limits != self._dispatcher.limits:
            log.info("dispatch.terms", pool=self._pool_no, active=limits.is_active)
            self._dispatcher.set_limits(limits)

    async def _charge_recent_starts(self) -> None:
        """Charge the deliveries of the previous process, so that a restart keeps to the rate."""
        if self._dispatcher.limits.rate_limit is not None:
            self._dispatcher.charge_recent_starts(await self._queue.recent_starts())

    def _do_soon(self, read: Callable[[], Awaitable[None]]) -> None:
        """Read what a notification says has changed; after a failure, a later scan reads it."""
        self._rereading.start(self._do(read))

    async def _do(self, read: Callable[[], Awaitable[None]]) -> None:
        with skip_during_outage(self._name):
            await read()
