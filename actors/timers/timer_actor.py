"""The Ray actor of the timer."""

import asyncio
from typing import Any

from actors.messaging.shard_client import ShardClient
from actors.runtime.actor import Actor
from actors.timers.timer import Timer
from core.shared.address import Address
from core.shared.config import Config
from services.shared.process import new_turn_id
from storage.waits.deadlines import DeadlineStore

# A larger difference between a shard's clock and ours is not explained by delays.
MAX_CLOCK_DIFFERENCE = 1.0
# More often than other actors: while our clock is ahead, deadlines fire early.
SYNC_INTERVAL = 1.0


class TimerActor(Actor[Timer]):
    """Fires deadlines; the supervisor's first call starts it."""

    kind = "timer"

    def __init__(self, name: str, config: Config) -> None:
        super().__init__(name, config)
        self._asking = asyncio.Lock()

    async def arm(self, due: list[tuple[Address, float]], now: float | None = None) -> None:
        """Add deadlines that a shard has just committed; `now` is the shard's time.

        If that differs from our time, the database's clock may have changed. Our clock is then
        measured again first, because the deadlines could fire early.
        """
        self._begin()
        if now is not None and self._environment.clock.synced and self._differs(now):
            async with self._asking:
                if self._differs(now):
                    await self._retrying(self._measure_anew)
        if self._hosted is not None:
            self._hosted.arm(due)

    def _differs(self, now: float) -> bool:
        return abs(self._environment.now() - now) > MAX_CLOCK_DIFFERENCE

    async def _measure_anew(self) -> None:
        """Measure the clock on new connections, because old ones may lead to a former server."""
        await self._database.expire_connections()
        await self._environment.clock.sync(self._database)

    def _stats(self) -> dict[str, Any]:
        return self._hosted.snapshot() if self._hosted else {}

    async def _start(self) -> Timer:
        config, now = self._config, self._environment.now
        deadlines = DeadlineStore(await self._open_database(4, SYNC_INTERVAL))
        send_many = ShardClient.open(config).send_many
        timer = Timer(config, deadlines, send_many, now, new_turn_id)
        await self._retrying(timer.start)
        self._measure("fire", lambda: timer.stalled_seconds)
        self._spawn(self._tick_forever(timer))
        self._every(config.timer_horizon / 5, timer.read_ahead, "read_ahead")
        self._every(config.timer_horizon, timer.sweep, "sweep")
        return timer

    async def _tick_forever(self, timer: Timer) -> None:
        while True:
            timer.tick()
            await asyncio.sleep(self._config.timer_tick)
