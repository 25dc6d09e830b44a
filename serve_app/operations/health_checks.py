"""Health of the database, the shards, the timer and optional components.

A component is UP while its work makes progress; answering alone is not enough.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actors.client import ActorClient
from actors.runtime.names import DISPATCH as DISPATCH_POOL
from core.shared.config import Placement
from core.shared.stalls import stall_of
from serve_app.cluster_stats import SUPERVISOR_ERRORS, ClusterStats, Report
from serve_app.kafka.status import error_of, is_connected
from services.shared.cache import Cache
from storage.postgres.clock import read_clock
from storage.postgres.error_class import SERVER_ERRORS
from storage.postgres.pool import Pool, PoolOptions, open_pool
from storage.postgres.schema_check import SchemaMismatchError
from telemetry.actor_metrics import stats_of
from telemetry.gather_metrics import gathers_processed, resources_up
from telemetry.kafka_metrics import INGEST, RELAY

HEALTH_TTL = 1.0
MAX_STALLS_SHOWN = 5
DATABASE_TIMEOUT = 2.0

UP, DOWN = "UP", "DOWN"
KAFKA = "kafka"
POOLS = "pools"
DISPATCH = "dispatch"
MAINTENANCE = "maintenance"
# Requests are served without these components, so they do not make the whole DOWN.
_INFORMATIONAL = frozenset({KAFKA, POOLS, DISPATCH, MAINTENANCE})
Component = dict[str, Any]


class Health:
    """Checks every component. Results are cached for a second, since anybody may ask."""

    def __init__(
        self,
        client: ActorClient,
        census: ClusterStats,
        streams: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cluster_stats = census
        self._streams = streams
        self._pool: Pool | None = None
        # Background tasks of this replica, each with the seconds since its last progress.
        self.stalled: dict[str, Callable[[], float]] = {}
        self._checked = Cache(self._check, ttl=lambda _: HEALTH_TTL, monotonic=monotonic, limit=1)

    async def read(self, tenant: int | None = None) -> dict[str, Any]:
        """Return the health of all components: DOWN if one is DOWN that requests need.

        Kafka, pools, dispatch, streams and resources are informational. Only the tenant that owns
        the resources sees their names.
        """
        components = await self._checked.get("components")
        needed = [part for name, part in components.items() if name not in _INFORMATIONAL]
        is_up = all(part["status"] == UP for part in needed)
        shown = components | await self._gathers(tenant)
        return {"status": UP if is_up else DOWN, "components": shown}

    async def _gathers(self, tenant: int | None) -> dict[str, Component]:
        actors = await self._cluster_stats.actors() or ()
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
        return {"database": database, "replica": self._replica(), **actors}

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()

    async def _database(self) -> Component:
        # A dedicated connection, because a busy replica may use all others.
        if self._pool is None:
            dsn = self._client.config.dsn
            options = PoolOptions(
                dsn=dsn, name="health", max_size=1, statement_timeout=DATABASE_TIMEOUT
            )
            self._pool = await open_pool(options)
        try:
            await asyncio.wait_for(read_clock(self._pool), DATABASE_TIMEOUT)
        except SchemaMismatchError as error:
            return {"status": DOWN, "detail": str(error)}
        except SERVER_ERRORS:
            return {"status": DOWN, "detail": "no answer"}
        return {"status": UP}

    def _replica(self) -> Component:
        stall = stall_of({"stalled": {work: seconds() for work, seconds in self.stalled.items()}})
        return {"status": UP} if stall is None else {"status": DOWN, "detail": stall}

    async def _actors(self) -> dict[str, Component]:
        config = self._client.config
        try:
            report = await self._cluster_stats.report()
        except SUPERVISOR_ERRORS:
            down = {"status": DOWN, "detail": "the supervisor does not answer"}
            kafka = () if config.kafka is None else (KAFKA,)
            return dict.fromkeys(("shards", "timer", MAINTENANCE, POOLS, DISPATCH, *kafka), down)
        expected = 0 if config.placement is Placement.DEDICATED else config.shards
        shards, timer = _group(report, "shard", expected), _group(report, "timer", 1)
        pools = _group(report, "pool", config.call_pools)
        components = {"shards": shards, "timer": timer, POOLS: pools}
        components[MAINTENANCE] = _group(report, "maintenance", 1)
        components[DISPATCH] = dispatch_component(report)
        if config.kafka is not None:
            components[KAFKA] = kafka_component(report, config.kafka.ingest)
        return components


def _group(report: Report, kind: str, expected: int) -> Component:
    return _component([one for one in report["actors"] if one["kind"] == kind], expected)


def dispatch_component(report: Report) -> Component:
    """Return UP if every dispatch pool answers and makes progress."""
    pools = [actor for actor in report["actors"] if str(actor["name"]).startswith(DISPATCH_POOL)]
    return _component(pools, len(pools))


def _component(actors: Sequence[Report], expected: int) -> Component:
    """Return UP if as many actors as expected answer and none is stalled."""
    alive = [actor for actor in actors if actor["alive"]]
    stalls = _stalls(alive)
    up = len(alive) - len(stalls)
    is_up = up >= expected and not stalls
    component: Component = {"status": UP if is_up else DOWN, "up": up, "expected": expected}
    return component | ({"detail": "; ".join(stalls[:MAX_STALLS_SHOWN])} if stalls else {})


def _stalls(actors: Iterable[Report]) -> list[str]:
    return [f"{actor['name']}: {stall}" for actor in actors if (stall := stall_of(actor))]


def kafka_component(report: Report, expected: int) -> Component:
    """Return UP if every consumer and the relay are connected and make progress, else why not.

    Anybody may ask, so errors are shown by their type only: their texts may name hosts.
    """
    actors = [actor for actor in report["actors"] if actor["kind"] in {INGEST, RELAY}]
    up = sum(
        actor["kind"] == INGEST and is_connected(actor) and stall_of(actor) is None
        for actor in actors
    )
    details = [f"{actor['name']} {_in_short(actor)}" for actor in actors if error_of(actor)]
    details += _stalls(actor for actor in actors if actor.get("alive"))
    is_up = up >= expected and not details
    details += [f"{actor['name']} {words}" for actor in actors if (words := _held_words(actor))]
    component: Component = {"status": UP if is_up else DOWN, "up": up, "expected": expected}
    return component | ({"detail": "; ".join(details)} if details else {})


def _held_words(actor: Report) -> str | None:
    """Describe what cannot be published; a misspelt topic is shown but does not mean DOWN."""
    held, refused = (int(stats_of(actor).get(name) or 0) for name in ("held_topics", "refused"))
    if not (held or refused):
        return None
    return f"cannot publish to {held} topics, nor {refused} events to others"


def _in_short(actor: Report) -> str:
    if actor.get("alive") and stats_of(actor).get("error"):
        return f"cannot use the brokers ({str(stats_of(actor)['error']).partition(':')[0]})"
    return str(error_of(actor))
