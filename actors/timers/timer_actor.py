"""The Ray face of the timer, with the sweeper beside it."""

import asyncio
import time
from functools import partial
from typing import Any

from actors.maintenance.backlog_monitor import CHECK_INTERVAL as WATCH_EVERY
from actors.maintenance.backlog_monitor import BacklogMonitor
from actors.maintenance.cleanup import Sweeper
from actors.maintenance.encryption_sweep import EncryptionSweep
from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Process
from actors.runtime.directory import Directory
from actors.runtime.names import SUPERVISOR
from actors.timers.timer import Timer
from core.shared.address import Address
from core.shared.config import Config
from services.shared.process import freeze_gc, new_turn_id, sync_until_done
from storage.postgres.clock import DatabaseClock
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.waits.deadlines import DeadlineStore

# Seconds between a shard's clock and ours that no measurement and no queue explains.
CLOCKS_APART = 1.0


class TimerActor:
    """Drives timeouts; started by the supervisor, idle until it is told to run."""

    def __init__(self, name: str, config: Config) -> None:
        self._process = Process(name, config)
        self._config = config
        self._clock = DatabaseClock(time.monotonic, time.time)
        self._timer: Timer | None = None
        self._database: Pool | None = None
        self._asking = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None

    async def arm(self, due: list[tuple[Address, float]], now: float | None = None) -> None:
        """Take deadlines that a shard has just committed; `now` is its time.

        If that is not ours, the database may have another clock since a moment ago, and we may not
        have heard of it: until we have, these could fire early.
        """
        self._ensure_started()
        if now is not None and self._database is not None and self._is_apart(now):
            async with self._asking:
                if self._is_apart(now):
                    await self._process.retry_while_away(
                        partial(self._measure_anew, self._database)
                    )
        if self._timer is not None:
            self._timer.arm(due)

    def _is_apart(self, now: float) -> bool:
        return abs(self._clock.now() - now) > CLOCKS_APART

    async def _measure_anew(self, pool: Pool) -> None:
        """Ask the server that shards write to now, not one that a connection still leads to."""
        await pool.expire_connections()
        await self._clock.sync(pool)

    async def report(self) -> dict[str, Any]:
        """Where it runs and what it counted. The supervisor's first call starts the loops."""
        self._ensure_started()
        stats = self._timer.snapshot() if self._timer else {}
        return {**self._process.describe(), "kind": "timer", "stats": stats}

    def _ensure_started(self) -> None:
        if self._starting is None:
            self._starting = self._process.launch(self._start())

    async def _start(self) -> None:
        config = self._config
        options = PoolOptions(dsn=config.dsn, name="timer", max_size=4)
        pool = await open_pool(options, self._clock.measure)
        await sync_until_done(self._clock, pool)
        self._database = pool
        directory = Directory(config)
        router = ShardClient.open(config, directory)
        timer = Timer(config, DeadlineStore(pool), router.send_many, self._clock.now, new_turn_id)
        sweeper = Sweeper(config, pool, router.send_many, self._clock.now)
        await self._process.retry_while_away(timer.start)
        self._timer = timer
        self._process.measure("fire", lambda: timer.stalled_seconds)
        self._process.spawn(self._tick_forever(timer))
        self._process.every(config.timer_horizon / 5, timer.read_ahead, "read_ahead")
        self._process.every(config.timer_horizon, timer.sweep, "sweep")
        self._process.every(config.sweep_every, sweeper.reoffer, "reoffer")
        self._process.every(config.sweep_every, sweeper.forget, "forget")
        self._process.every(config.sweep_every, EncryptionSweep(pool).run)
        self._process.every(WATCH_EVERY, BacklogMonitor(pool).check)
        # More often than others: what fires while its clock is ahead fires early.
        self._process.every(1.0, lambda: self._clock.sync(pool))
        # The supervisor watches over everyone; this call watches over the supervisor.
        self._process.every(2.0, lambda: directory.report(SUPERVISOR))
        freeze_gc()

    async def _tick_forever(self, timer: Timer) -> None:
        while True:
            timer.tick()
            await asyncio.sleep(self._config.timer_tick)
