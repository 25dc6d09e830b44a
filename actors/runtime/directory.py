"""Finds and creates actors; the only module that applies `ray.remote`.

Get-or-create is one atomic call, so any process may bring back a missing actor.
"""

import asyncio
import time
from importlib import import_module
from typing import Any

import ray

from actors.runtime.names import (
    CALLS,
    DEDICATED,
    DISPATCH,
    INGEST,
    MAINTENANCE,
    RELAY,
    SHARD,
    SUPERVISOR,
    TIMER,
)
from core.shared.config import Config
from core.shared.errors import OverloadedError, UnavailableError

Handle = Any  # Ray's handles have no static type

ANSWER_WITHIN = 5.0

# Classes by name prefix; imported when first needed, because actors import this module.
_CLASSES = {
    SHARD: "actors.waits.shard_actor:ShardActor",
    DEDICATED: "actors.waits.shard_actor:ShardActor",
    TIMER: "actors.timers.timer_actor:TimerActor",
    MAINTENANCE: "actors.maintenance.maintenance_actor:MaintenanceActor",
    INGEST: "actors.kafka.ingest_actor:KafkaIngestActor",
    RELAY: "actors.kafka.relay_actor:RelayActor",
    CALLS: "actors.gathers.call_pool_actor:PoolActor",
    DISPATCH: "actors.dispatch.pool_actor:DispatchActor",
    SUPERVISOR: "actors.runtime.supervisor:SupervisorActor",
}


def ensure(name: str, config: Config) -> Handle:
    """Return the actor of this name, created if necessary. Blocks on Ray's control store."""
    return _remote(name, config).remote(name, config)


def find(name: str, namespace: str) -> Handle | None:
    """Return the actor of this name, or None."""
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def list_actor_names(namespace: str) -> list[str]:
    """List the names of all actors in a namespace."""
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
        self._handles: dict[str, Handle] = {}
        self._looking: dict[str, asyncio.Task[Handle]] = {}
        self._dedicated_seen = (0.0, 0)

    async def handle(self, name: str) -> Handle:
        """Return the actor of this name; concurrent callers share one look-up."""
        found = self._handles.get(name)
        if found is not None:
            return found
        task = self._looking.get(name)
        if task is None:
            task = asyncio.create_task(self._look_up(name))
            self._looking[name] = task
            task.add_done_callback(lambda _: self._looking.pop(name, None))
        return await asyncio.shield(task)

    async def report(self, name: str) -> dict[str, Any]:
        """Return the report of an actor.

        Raises:
            UnavailableError: The actor does not answer.
        """
        handle = await self.handle(name)
        try:
            told: dict[str, Any] = await asyncio.wait_for(handle.report.remote(), ANSWER_WITHIN)
        except (ray.exceptions.RayError, TimeoutError) as error:
            self.forget(name)
            raise UnavailableError(f"{name} does not answer") from error
        return told

    def forget(self, name: str) -> None:
        """Drop a handle that did not work, so that it is looked up again."""
        self._handles.pop(name, None)

    async def _look_up(self, name: str) -> Handle:
        loop = asyncio.get_running_loop()
        handle = await loop.run_in_executor(None, self._find_or_make, name)
        self._handles[name] = handle
        return handle

    def _find_or_make(self, name: str) -> Handle:
        handle = find(name, self._config.namespace)
        if handle is not None:
            return handle
        if name.startswith(DEDICATED):
            self._check_dedicated_limit()
        return ensure(name, self._config)

    def _check_dedicated_limit(self) -> None:
        """Refuse another dedicated actor above the limit, because each is a process."""
        checked_at, count = self._dedicated_seen
        if time.monotonic() - checked_at > 1.0:
            count = sum(
                name.startswith(DEDICATED) for name in list_actor_names(self._config.namespace)
            )
        self._dedicated_seen = (time.monotonic(), count + 1)
        if count >= self._config.dedicated_limit:
            raise OverloadedError(
                f"{count} correlations have an actor of their own; the limit is "
                f"{self._config.dedicated_limit} (MUSTER_DEDICATED_LIMIT)"
            )
