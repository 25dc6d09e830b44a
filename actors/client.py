"""A caller's door to the actors: one for each process that talks to correlations."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import structlog

from actors.dispatch.job_notifier import JobNotifier
from actors.messaging.change_watch import ChangeWatch, ChangeWatches
from actors.messaging.router import Router
from actors.runtime.directory import ANSWER_WITHIN, Directory, ensure
from actors.runtime.names import SUPERVISOR, call_pool_name, dispatch_pool_name
from core.dispatch.job import JobRef
from core.gathers.gather import CallBatch, GatherCall, encode_call_batch
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import UnavailableError
from core.waits.messages import Abandon, Reply, WaitMessage
from services.shared.process import new_turn_id, sync_forever
from storage.dispatch import job_queue
from storage.postgres.clock import DatabaseClock
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Pool, PoolOptions, open_pool

log = structlog.get_logger("gateway")

HANDOVER_TIMEOUT = 2.0
LISTING_CONNECTIONS = 4
"""Connections for listings; one more is for the counts that metrics tell."""


def begin(config: Config) -> None:
    """Have the actors brought up; returns at once."""
    ensure(SUPERVISOR, config).adopt.remote(config)


class ActorClient:
    """Sends messages, watches correlations, reads Postgres."""

    def __init__(
        self,
        config: Config,
        pool: Pool,
        listing_pool: Pool | None = None,
        clock: DatabaseClock | None = None,
    ) -> None:
        self.config = config
        self.pool = pool
        self.listing_pool = listing_pool or pool
        """For what may take long, so that what is quick never waits behind it."""
        self.clock = clock or DatabaseClock(time.monotonic, time.time)
        self._directory = Directory(config)
        self._router = Router(config, self._directory.handle_batch)
        self._feed = new_turn_id()
        self._watches = ChangeWatches(config, self._directory, self._feed)
        mark_pending = partial(job_queue.mark_pending, pool)
        self._job_notifier = JobNotifier(
            self._directory.handle, self._directory.forget, mark_pending
        )
        self._syncing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, config: Config) -> "ActorClient":
        """Open it in the running loop; Ray must be initialised. Postgres may be away."""
        options = PoolOptions(
            dsn=config.dsn,
            name="ingress",
            max_size=8,
            statement_timeout=config.request_timeout,
            plan_each_time=True,
        )
        clock = DatabaseClock(time.monotonic, time.time)
        pool = await open_pool(options, clock.measure)
        listing_pool = await open_pool(
            replace(options, name="listings", max_size=LISTING_CONNECTIONS + 1)
        )
        gateway = cls(config, pool, listing_pool, clock)
        await gateway._bring_up()
        # Without it the wall clock serves for token ages until Postgres is back.
        with contextlib.suppress(*SERVER_ERRORS):
            await gateway.clock.sync(pool)
        gateway._syncing = asyncio.create_task(sync_forever("ingress", gateway.clock, pool))
        return gateway

    async def _bring_up(self) -> None:
        """See that a supervisor with our configuration runs, and that all its actors answer."""
        while True:
            supervisor = await self._directory.handle(SUPERVISOR)
            try:
                if await supervisor.adopt.remote(self.config):
                    return
                await asyncio.to_thread(ray.kill, supervisor)
            except ray.exceptions.RayActorError as error:
                log.warning("gateway.supervisor_away", error=type(error).__name__)
                await asyncio.sleep(0.2)
            self._directory.forget(SUPERVISOR)

    async def send(self, message: WaitMessage) -> Reply:
        """Send one message; its answer means that it is committed."""
        return await self._router.send(message)

    async def send_many(self, messages: list[WaitMessage]) -> list[Reply]:
        """Send many; the answers in their order."""
        return await self._router.send_many(messages)

    async def begin_calls(self, call_batch: CallBatch, max_wait: float) -> int | None:
        """Hand calls to their pools; how many were agreed to within `patience` seconds.

        None if a pool has no room for its part. One that is away finds it in Postgres when it is
        back.
        """
        groups: dict[str, list[GatherCall]] = {}
        for call in call_batch.calls:
            name = call_pool_name(call.address.tenant, call.name, self.config)
            groups.setdefault(name, []).append(call)
        agreed = await asyncio.gather(
            *(
                self._begin(name, CallBatch(tuple(group), call_batch.context), max_wait)
                for name, group in groups.items()
            )
        )
        taken = [count for count in agreed if count is not None]
        return sum(taken) if len(taken) == len(agreed) else None

    async def _begin(self, pool: str, call_batch: CallBatch, max_wait: float) -> int | None:
        try:
            handle = await self._directory.handle(pool)
            begun = handle.begin.remote(encode_call_batch(call_batch), max_wait)
            agreed: int | None = await asyncio.wait_for(begun, max_wait + HANDOVER_TIMEOUT)
        except (ray.exceptions.RayError, TimeoutError, ValueError) as error:
            log.warning("gateway.pool_away", pool=pool, error=type(error).__name__)
            self._directory.forget(pool)
            return 0
        return agreed

    async def notify_pools(self, jobs: Mapping[int, Sequence[JobRef]]) -> None:
        """Tell pools of jobs that were stored for them; one that is away finds them in Postgres."""
        self._job_notifier(jobs)

    async def ask_pool(self, pool_no: int, question: str, *args: Any) -> Any:
        """Ask a dispatch pool something, by the name of its method.

        Raises:
            UnavailableError: It is away.
        """
        name = dispatch_pool_name(pool_no)
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                handle = await self._directory.handle(name)
                return await getattr(handle, question).remote(*args)
        except (ray.exceptions.RayError, TimeoutError, ValueError) as error:
            self._directory.forget(name)
            raise UnavailableError(f"dispatch pool {pool_no} does not answer") from error

    async def abandon(self, address: Address) -> Reply:
        """The last reader here went away; without others, the correlation is cancelled."""
        message = Abandon(address=address, turn_id=new_turn_id(), feed=self._feed)
        try:
            return await self._router.send(message)
        finally:
            self._watches.renew(address)  # for somebody who came meanwhile

    def watch(self, address: Address) -> AbstractAsyncContextManager[ChangeWatch]:
        """Be told when this correlation may have changed."""
        return self._watches.watch(address)

    async def report(self) -> dict[str, Any]:
        """The supervisor's view of all actors."""
        report: dict[str, Any] = await self._directory.report(SUPERVISOR)
        return report

    async def close(self) -> None:
        """Let go of everything this process holds."""
        if self._syncing is not None:
            self._syncing.cancel()
        await self._job_notifier.close()
        await self._watches.close()
        await self._router.close()
        await self._directory.close()
        self.pool.terminate()
        self.listing_pool.terminate()
