"""Whether requests can be served: the database, the shards, the timer."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from actors.cache import Cache
from actors.gateway import Gateway
from core.config import Placement
from serve_app.census import AWAY, Census, Report
from storage.clock import DatabaseClock
from storage.pool import CONNECTION_ERRORS

TTL = 1.0
PATIENCE = 2.0

UP, DOWN = "UP", "DOWN"
Component = dict[str, Any]


class Health:
    """Looks at every part. The answer is kept a second, since anybody may ask."""

    def __init__(
        self,
        gateway: Gateway,
        census: Census,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway = gateway
        self._census = census
        self._monotonic = monotonic
        self._checked = Cache(self._check, ttl=lambda _: TTL, monotonic=monotonic, limit=1)

    async def look(self) -> dict[str, Any]:
        """The whole picture: DOWN if any part is."""
        components = await self._checked.get("components")
        is_up = all(part["status"] == UP for part in components.values())
        return {"status": UP if is_up else DOWN, "components": components}

    async def _check(self, _: str) -> dict[str, Component]:
        database, actors = await asyncio.gather(self._database(), self._actors())
        return {"database": database, **actors}

    async def _database(self) -> Component:
        # A clock of its own: this must not disturb the one that requests read.
        clock = DatabaseClock(self._monotonic, time.time)
        try:
            await asyncio.wait_for(clock.sync(self._gateway.pool), PATIENCE)
        except CONNECTION_ERRORS:
            return {"status": DOWN, "detail": "no answer"}
        return {"status": UP}

    async def _actors(self) -> dict[str, Component]:
        try:
            report = await self._census.report()
        except AWAY:
            down = {"status": DOWN, "detail": "the supervisor does not answer"}
            return {"shards": down, "timer": down}
        config = self._gateway.config
        expected = 0 if config.placement is Placement.DEDICATED else config.shards
        return {"shards": _group(report, "shard", expected), "timer": _group(report, "timer", 1)}


def _group(report: Report, kind: str, expected: int) -> Component:
    up = sum(actor["kind"] == kind and bool(actor["alive"]) for actor in report["actors"])
    return {"status": UP if up >= expected else DOWN, "up": up, "expected": expected}
