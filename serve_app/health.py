"""Whether requests can be served: the database, the shards, the timer; and how Kafka is."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from actors.cache import Cache
from actors.gateway import Gateway
from core.config import Placement
from serve_app.census import AWAY, Census, Report
from serve_app.kafka_view import INGEST, RELAY, is_connected, stats_of, trouble_of
from storage.clock import DatabaseClock
from storage.pool import CONNECTION_ERRORS

TTL = 1.0
PATIENCE = 2.0

UP, DOWN = "UP", "DOWN"
KAFKA = "kafka"
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
        """The whole picture: DOWN if any part is that requests need.

        Without Kafka, requests are served and events come in by HTTP: it is told, no more.
        """
        components = await self._checked.get("components")
        needed = [part for name, part in components.items() if name != KAFKA]
        is_up = all(part["status"] == UP for part in needed)
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
        config = self._gateway.config
        try:
            report = await self._census.report()
        except AWAY:
            down = {"status": DOWN, "detail": "the supervisor does not answer"}
            parts = ("shards", "timer") if config.kafka is None else ("shards", "timer", KAFKA)
            return dict.fromkeys(parts, down)
        expected = 0 if config.placement is Placement.DEDICATED else config.shards
        shards, timer = _group(report, "shard", expected), _group(report, "timer", 1)
        components = {"shards": shards, "timer": timer}
        if config.kafka is not None:
            components[KAFKA] = kafka_component(report, config.kafka.ingest)
        return components


def _group(report: Report, kind: str, expected: int) -> Component:
    up = sum(actor["kind"] == kind and bool(actor["alive"]) for actor in report["actors"])
    return {"status": UP if up >= expected else DOWN, "up": up, "expected": expected}


def kafka_component(report: Report, expected: int) -> Component:
    """UP when every consumer and the relay are connected; else which is not, and why.

    Anybody may ask, so only the kind of an error is told: its text may name hosts.
    """
    actors = [actor for actor in report["actors"] if actor["kind"] in {INGEST, RELAY}]
    up = sum(actor["kind"] == INGEST and is_connected(actor) for actor in actors)
    details = [f"{actor['name']} {_in_short(actor)}" for actor in actors if trouble_of(actor)]
    is_up = up >= expected and not details
    component: Component = {"status": UP if is_up else DOWN, "up": up, "expected": expected}
    return component | ({"detail": "; ".join(details)} if details else {})


def _in_short(actor: Report) -> str:
    if actor.get("alive") and stats_of(actor).get("error"):
        return f"cannot use the brokers ({str(stats_of(actor)['error']).partition(':')[0]})"
    return str(trouble_of(actor))
