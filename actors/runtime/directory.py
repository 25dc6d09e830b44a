"""Finds and creates actors; the only module that applies `ray.remote`.

Get-or-create is one atomic call, so any process may bring back a missing actor.
"""

import asyncio
import math
import time
from importlib import import_module
from typing import Any

import ray

from actors.runtime import names
from core.shared.config import Config
from core.shared.errors import OverloadedError, UnavailableError
from services.shared.cache import Cache

Handle = Any  # Ray's handles have no static type

ANSWER_WITHIN = 5.0

# Classes by name prefix; imported when first needed, because actors import this module.
_CLASSES = {
    names.SHARD: "actors.waits.shard_actor:ShardActor",
    names.DEDICATED: "actors.waits.shard_actor:ShardActor",
    names.TIMER: "actors.timers.timer_actor:TimerActor",
    names.MAINTENANCE: "actors.maintenance.maintenance_actor:MaintenanceActor",
    names.INGEST: "actors.kafka.ingest_actor:KafkaIngestActor",
    names.RELAY: "actors.kafka.relay_actor:RelayActor",
    names.CALLS: "actors.gathers.call_pool_actor:PoolActor",
    names.DISPATCH: "actors.dispatch.pool_actor:DispatchActor",
    names.SUPERVISOR: "actors.runtime.supervisor:SupervisorActor",
}


def ensure(name: str, config: Config) -> Handle:
    """Return the actor of this name, created if necessary. Blocks on Ray's control store."""
    return _remote(name, config).remote(name, config)


def find(name: str, namespace: str) -> Handle | None:
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def list_actor_names(namespace: str) -> list[str]:
    rows = ray.util.list_named_actors(all_namespaces=True)
    return sorted(row["name"] for row in rows if row["namespace"] == namespace)


def _remote(name: str, config: Config) -> Any:
    path = next(path for prefix, path in _CLASSES.items() if name.startswith(prefix))
    module, _, kind = path.partition(":")
    return ray.remote(getattr(import_module(module), kind)).options(
        name=name,
        namespace=config.namespace,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        # A failed call may have run: callers retry with the same ids, Ray must not.
        max_task_retries=0,
        max_concurrency=1_000,
        num_cpus=0,
        # Losing one node must not lose all shards. Ray ignores SPREAD for an actor without
        # resources and picks a random node; one byte of memory makes it distribute actors evenly.
        scheduling_strategy="SPREAD",
        memory=1,
        enable_task_events=False,
    )


class Directory:
    """Caches the actor handles of a process until their actor dies."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._handles: Cache[str, Handle] = Cache(
            self._look_up, ttl=lambda _: math.inf, monotonic=time.monotonic
        )
        self._dedicated_seen = (0.0, 0)

    async def handle(self, name: str) -> Handle:
        """Return the actor of this name; concurrent callers share one look-up."""
        return await self._handles.get(name)

    async def call(self, name: str, method: str, *args: Any, seconds: float = ANSWER_WITHIN) -> Any:
        """Call a method of an actor.

        Raises:
            UnavailableError: The actor does not answer within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                handle = await self.handle(name)
                return await getattr(handle, method).remote(*args)
        except (ray.exceptions.RayError, TimeoutError, ValueError) as error:
            self.forget(name)
            raise UnavailableError(f"{name} does not answer") from error

    def forget(self, name: str) -> None:
        """Drop a handle that did not work, so that it is looked up again."""
        self._handles.forget(name)

    async def _look_up(self, name: str) -> Handle:
        return await asyncio.get_running_loop().run_in_executor(None, self._find_or_make, name)

    def _find_or_make(self, name: str) -> Handle:
        handle = find(name, self._config.namespace)
        if handle is not None:
            return handle
        if name.startswith(names.DEDICATED):
            self._check_dedicated_limit()
        return ensure(name, self._config)

    def _check_dedicated_limit(self) -> None:
        """Refuse another dedicated actor above the limit, because each is a process."""
        checked_at, count = self._dedicated_seen
        if time.monotonic() - checked_at > 1.0:
            count = sum(
                name.startswith(names.DEDICATED)
                for name in list_actor_names(self._config.namespace)
            )
        self._dedicated_seen = (time.monotonic(), count + 1)
        if count >= self._config.dedicated_limit:
            raise OverloadedError(
                f"{count} correlations have an actor of their own; the limit is "
                f"{self._config.dedicated_limit} (MUSTER_DEDICATED_LIMIT)"
            )
