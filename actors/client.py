"""The client of the actors; each process that sends messages to them has one."""

import asyncio
import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import structlog

from actors.dispatch.job_notifier import JobNotifier
from actors.messaging.change_watch import ChangeWatches
from actors.messaging.shard_client import ShardClient
from actors.runtime.directory import Directory, ensure
from actors.runtime.names import SUPERVISOR, call_pool_name, dispatch_pool_name
from core.gathers.gather import CallBatch, GatherCall, encode_call_batch
from core.shared.address import Address
from core.shared.config import Config
from core.shared.errors import UnavailableError
from core.waits.messages import Abandon, Reply
from services.shared.process import SYNC_INTERVAL, BackgroundTasks, new_turn_id, repeat
from storage.dispatch import job_queue
from storage.postgres.clock import DatabaseClock
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Pool, PoolOptions, open_pool

log = structlog.get_logger("client")

HANDOVER_TIMEOUT = 2.0
# Connections for listings; the counts in the metrics use one more.
LISTING_CONNECTIONS = 4


def begin(config: Config) -> None:
    """Ask the supervisor to start all actors, without waiting."""
    ensure(SUPERVISOR, config).adopt.remote(config)


class ActorClient:
    """Sends messages to actors, watches correlations and reads Postgres."""

    def __init__(
        self,
        config: Config,
        pool: Pool,
        listing_pool: Pool | None = None,
        clock: DatabaseClock | None = None,
    ) -> None:
        self.config = config
        self.pool = pool
        # For queries that may take long, so that quick ones never wait behind them.
        self.listing_pool = listing_pool or pool
        self.clock = clock or DatabaseClock(time.monotonic, time.time)
        self._directory = Directory(config)
        self._shards = ShardClient.open(config, self._directory)
        self.send = self._shards.send
        self.send_many = self._shards.send_many
        self._feed = new_turn_id()
        self._watches = ChangeWatches(config, self._directory, self._feed)
        self.watch = self._watches.watch
        self._job_notifier = JobNotifier(
            self._directory.call, partial(job_queue.mark_pending, pool)
        )
        self.notify_pools = self._job_notifier.notify
        self._tasks = BackgroundTasks()

    @classmethod
    async def open(cls, config: Config) -> "ActorClient":
        """Open a client in the running loop. Ray must be initialised; Postgres may be away."""
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
        client = cls(config, pool, listing_pool, clock)
        await client._ensure_supervisor()
        # Until Postgres answers, the wall clock serves for token ages.
        with contextlib.suppress(*SERVER_ERRORS):
            await client.clock.sync(pool)
        client._tasks.start(repeat("ingress", SYNC_INTERVAL, partial(clock.sync, pool)))
        return client

    async def _ensure_supervisor(self) -> None:
        """Wait until a supervisor with this configuration runs and all its actors answer."""
        while True:
            supervisor = await self._directory.handle(SUPERVISOR)
            try:
                if await supervisor.adopt.remote(self.config):
                    return
                await asyncio.to_thread(ray.kill, supervisor)
            except ray.exceptions.RayActorError as error:
                log.warning("client.supervisor_away", error=type(error).__name__)
                await asyncio.sleep(0.2)
            self._directory.forget(SUPERVISOR)

    async def begin_calls(self, call_batch: CallBatch, max_wait: float) -> int | None:
        """Hand calls to their pools; return how many resources agreed within `max_wait` seconds.

        Return None if a pool has no room for its part. A pool that is away reads its part from
        Postgres when it is back.
        """
        groups: dict[str, list[GatherCall]] = {}
        for call in call_batch.calls:
            name = call_pool_name(call.address.tenant, call.name, self.config)
            groups.setdefault(name, []).append(call)
        counts = await asyncio.gather(
            *(
                self._begin_calls_of(name, CallBatch(tuple(group), call_batch.context), max_wait)
                for name, group in groups.items()
            )
        )
        agreed = [count for count in counts if count is not None]
        return sum(agreed) if len(agreed) == len(counts) else None

    async def _begin_calls_of(self, pool: str, calls: CallBatch, max_wait: float) -> int | None:
        encoded, seconds = encode_call_batch(calls), max_wait + HANDOVER_TIMEOUT
        try:
            agreed: int | None = await self._directory.call(
                pool, "begin", encoded, max_wait, seconds=seconds
            )
        except UnavailableError as error:
            log.warning("client.pool_away", pool=pool, error=type(error.__cause__).__name__)
            return 0
        return agreed

    async def ask_pool(self, pool_no: int, method: str, *args: Any) -> Any:
        """Call a method of a dispatch pool.

        Raises:
            UnavailableError: The pool is away.
        """
        return await self._directory.call(dispatch_pool_name(pool_no), method, *args)

    async def abandon(self, address: Address) -> Reply:
        """Report that the last reader here left; if no other replica has one, cancel the wait."""
        message = Abandon(address=address, turn_id=new_turn_id(), feed=self._feed)
        try:
            return await self.send(message)
        finally:
            self._watches.renew(address)  # a new reader may have arrived meanwhile

    async def report(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._directory.call(SUPERVISOR, "report")
        return found

    async def close(self) -> None:
        self._tasks.cancel()
        await self._job_notifier.close()
        await self._watches.close()
        await self._shards.close()
        self.pool.terminate()
        self.listing_pool.terminate()
