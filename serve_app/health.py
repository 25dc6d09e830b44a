"""Whether requests can be served: the database, the shards, the timer; and how others are."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from actors.cache import Cache
from actors.gateway import Gateway
from actors.names import DISPATCH as DISPATCH_POOL
from core.config import Placement
from serve_app.census import AWAY, Census, Report
from serve_app.kafka_view import INGEST, RELAY, is_connected, stats_of, trouble_of
from storage.clock import DatabaseClock
from storage.pool import CONNECTION_ERRORS
from telemetry.gather_families import gathers_processed, resources_up

TTL = 1.0
PATIENCE = 2.0

UP, DOWN = "UP", "DOWN"
KAFKA = "kafka"
POOLS = "pools"
DISPATCH = "dispatch"
# Without these, requests are served all the same.
_TOLD_ONLY = frozenset({KAFKA, POOLS, DISPATCH})
Component = dict[str, Any]


class Health:
    """Looks at every part. The answer is kept a second, since anybody may ask."""

    def __init__(
        self,
        gateway: Gateway,
        census: Census,
        streams: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway = gateway
        self._census = census
        self._streams = streams
        self._monotonic = monotonic
        self._checked = Cache(self._check, ttl=lambda _: TTL, monotonic=monotonic, limit=1)

    async def look(self, tenant: int | None = None) -> dict[str, Any]:
        """The whole picture: DOWN if any part is that requests need.

        Kafka, pools, dispatch, streams and resources are told, no more; resources by name to the
        tenant whose they are.
        """
        components = await self._checked.get("components")
        needed = [part for name, part in components.items() if name not in _TOLD_ONLY]
        is_up = all(part["status"] == UP for part in needed)
        told = components | await self._gathers(tenant)
        return {"status": UP if is_up else DOWN, "components": told}

    async def _gathers(self, tenant: int | None) -> dict[str, Component]:
        try:
            actors = (await self._census.report())["actors"]
        except AWAY:
            actors = []
        manager = {"activeSinks": self._streams(), "totalProcessed": gathers_processed(actors)}
        resources = resources_up(actors, tenant)
        up = sum(resources.values())
        if tenant is None:
            details: Component = {"up": up, "down": len(resources) - up}
        else:
            details = {name: UP if ok else DOWN for name, ok in sorted(resources.items())}
        status = UP if up or not resources else DOWN
        return {
            "sseManager": {"status": UP, "details": manager},
            "resourceConnectivity": {"status": status, "details": details},
        }

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
            kafka = () if config.kafka is None else (KAFKA,)
            return dict.fromkeys(("shards", "timer", POOLS, DISPATCH, *kafka), down)
        expected = 0 if config.placement is Placement.DEDICATED else config.shards
        shards, timer = _group(report, "shard", expected), _group(report, "timer", 1)
        pools = _group(report, "pool", config.call_pools)
        components = {"shards": shards, "timer": timer, POOLS: pools}
        components[DISPATCH] = dispatch_component(report)
        if config.kafka is not None:
            components[KAFKA] = kafka_component(report, config.kafka.ingest)
        return components


def _group(report: Report, kind: str, expected: int) -> Component:
    up = sum(actor["kind"] == kind and bool(actor["alive"]) for actor in report["actors"])
    return {"status": UP if up >= expected else DOWN, "up": up, "expected": expected}


def dispatch_component(report: Report) -> Component:
    """UP when every dispatch pool that there is answers."""
    pools = [actor for actor in report["actors"] if str(actor["name"]).startswith(DISPATCH_POOL)]
    up = sum(bool(actor["alive"]) for actor in pools)
    return {"status": UP if up == len(pools) else DOWN, "up": up, "expected": len(pools)}


def kafka_component(report: Report, expected: int) -> Component:
    """UP when every consumer and the relay are connected; else which is not, and why.

    Anybody may ask, so only the kind of an error is told: its text may name hosts.
    """
    actors = [actor for actor in report["actors"] if actor["kind"] in {INGEST, RELAY}]
    up = sum(actor["kind"] == INGEST and is_connected(actor) for actor in actors)
    details = [f"{actor['name']} {_in_short(actor)}" for actor in actors if trouble_of(actor)]
    is_up = up >= expected and not details
    details += [f"{actor['name']} {words}" for actor in actors if (words := _held_words(actor))]
    component: Component = {"status": UP if is_up else DOWN, "up": up, "expected": expected}
    return component | ({"detail": "; ".join(details)} if details else {})


def _held_words(actor: Report) -> str | None:
    """What cannot be published: told, but a topic that somebody misspelt makes nothing DOWN."""
    held, refused = (int(stats_of(actor).get(name) or 0) for name in ("held_topics", "refused"))
    if not (held or refused):
        return None
    return f"cannot publish to {held} topics, nor {refused} events to others"


def _in_short(actor: Report) -> str:
    if actor.get("alive") and stats_of(actor).get("error"):
        return f"cannot use the brokers ({str(stats_of(actor)['error']).partition(':')[0]})"
    return str(trouble_of(actor))
