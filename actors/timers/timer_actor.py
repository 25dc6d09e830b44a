"""The Ray actor of the timer."""

import asyncio
from functools import partial
from typing import Any

from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Actor
from actors.runtime.directory import Directory
from actors.timers.timer import Timer
from core.shared.address import Address
from core.shared.config import Config
from services.shared.process import new_turn_id
from storage.postgres.pool import Pool, PoolOptions
from storage.waits.deadlines import DeadlineStore

# A larger difference between a shard's clock and ours is not explained by delays.
MAX_CLOCK_DIFFERENCE = 1.0
# More often than other actors: while our clock is ahead, deadlines fire early.
SYNC_INTERVAL = 1.0


class TimerActor(Actor):
    """Fires deadlines; the supervisor's first call starts it."""

    kind = "timer"

    def __init__(self, name: str, config: Config) -> None:
        super().__init__(name, config)
        self._timer: Timer | None = None
        self._database: Pool | None = None
        self._asking = asyncio.Lock()

    async def arm(self, due: list[tuple[Address, float]], now: float | None = None) -> None:
        """Add deadlines that a shard has just committed; `now` is the shard's time.

        If that differs from our time, the database's clock may have changed. Our clock is then
        measured again first, because the deadlines could fire early.
        """
        self._begin()
        if now is not None and self._database is not None and self._differs(now):
            async with self._asking:
                if self._differs(now):
                    await self._retry_while_away(partial(self._measure_anew, self._database))
        if self._timer is not None:
            self._timer.arm(due)

    def _differs(self, now: float) -> bool:
        return abs(self._environment.now() - now) > MAX_CLOCK_DIFFERENCE

    async def _measure_anew(self, pool: Pool) -> None:
        """Measure the clock on new connections, because old ones may lead to a former server."""
        await pool.expire_connections()
        await self._environment.clock.sync(pool)

    def _stats(self) -> dict[str, Any]:
        return self._timer.snapshot() if self._timer else {}

    async def _start(self) -> None:
        config = self._config
        options = PoolOptions(dsn=config.dsn, name=self._name, max_size=4)
        pool = self._database = await self._open_database(options, SYNC_INTERVAL)
        router = ShardClient.open(config, Directory(config))
        now = self._environment.now
        timer = Timer(config, DeadlineStore(pool), router.send_many, now, new_turn_id)
        await self._retry_while_away(timer.start)
        self._timer = timer
        self._measure("fire", lambda: timer.stalled_seconds)
        self._spawn(self._tick_forever(timer))
        self._every(config.timer_horizon / 5, timer.read_ahead, "read_ahead")
        self._every(config.timer_horizon, timer.sweep, "sweep")

    async def _tick_forever(self, timer: Timer) -> None:
        while True:
            timer.tick()
            await asyncio.sleep(self._config.timer_tick)
