"""The lines of one process: opened when first needed, given up when Ray says the actor is gone."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import ray
import structlog

from actors.messaging.shard_socket import BatchConnection, ConnectionLostError, Endpoint

log = structlog.get_logger("lines")

# Where a port cannot be reached, as behind a firewall between nodes, Ray's own calls do it; the
# line is tried again now and then, aside.
RAY_FOR = 60.0
_MAX_CONNECTIONS = 256

Handle = Any
FindActor = Callable[[str], Awaitable[Handle]]


class ShardConnections:
    """Takes batches to actors by name."""

    def __init__(self, find: FindActor, forget: Callable[[str], None]) -> None:
        self._find = find
        self._forget = forget
        self._connections: dict[str, BatchConnection] = {}
        self._opening: dict[str, asyncio.Task[BatchConnection | None]] = {}
        self._holding: set[asyncio.Task[None]] = set()
        self._by_ray_until: dict[str, float] = {}
        self._refused: set[str] = set()
        self._closed = False

    async def handle_batch(self, name: str, batch: bytes) -> bytes:
        """Let this actor handle one batch.

        Raises:
            RayError, LineLostError: It is away.
            LineFailedError: It could not.
        """
        if self._closed:
            raise ConnectionLostError("shutting down")
        connection = self._connections.get(name)
        if connection is None or connection.is_lost:
            connection = await self._open_or_not(name)
        if connection is None:
            return await self._take_by_ray(name, batch)
        return await connection.call(batch)

    async def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        for task in (*self._opening.values(), *self._holding):
            task.cancel()
        for connection in self._connections.values():
            connection.close()

    async def _open_or_not(self, name: str) -> BatchConnection | None:
        until = self._by_ray_until.get(name)
        if until is None:
            return await asyncio.shield(self._attempt(name))
        if time.monotonic() > until:
            self._attempt(name)
        return None

    def _attempt(self, name: str) -> "asyncio.Task[BatchConnection | None]":
        """Many askers share one attempt."""
        task = self._opening.get(name)
        if task is None:
            task = asyncio.create_task(self._open(name))
            self._opening[name] = task
            task.add_done_callback(lambda done: self._attempted(name, done))
        return task

    def _attempted(self, name: str, task: "asyncio.Task[BatchConnection | None]") -> None:
        self._opening.pop(name, None)
        if not task.cancelled():
            task.exception()  # one that was made aside has nobody else to look at it

    async def _open(self, name: str) -> BatchConnection | None:
        handle = await self._find(name)
        endpoint = await self._ask(name, handle)
        if endpoint is None:
            self._go_by_ray(name)
            return None
        try:
            connection = await BatchConnection.open(endpoint)
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and name not in self._refused:
                # It has told its port a moment ago, so it has just died: look for it again.
                self._refused.add(name)
                self._forget(name)
                raise ConnectionLostError(f"{name} refused") from error
            log.warning("lines.unreachable", actor=name, port=endpoint.port, error=str(error))
            self._go_by_ray(name)
            return None
        self._refused.discard(name)
        self._by_ray_until.pop(name, None)
        self._connections[name] = connection
        holding = asyncio.create_task(self._hold(name, handle, endpoint, connection))
        self._holding.add(holding)
        holding.add_done_callback(self._holding.discard)
        return connection

    async def _ask(self, name: str, handle: Handle) -> Endpoint | None:
        try:
            endpoint: Endpoint | None = await handle.endpoint.remote()
        except ray.exceptions.RayActorError:
            self._forget(name)
            raise
        except (ray.exceptions.RayTaskError, AttributeError) as error:
            # An actor of an earlier version, say, that has no such thing.
            log.warning("lines.no_endpoint", actor=name, error=type(error).__name__)
            return None
        return endpoint

    def _go_by_ray(self, name: str) -> None:
        now = time.monotonic()
        if len(self._by_ray_until) >= _MAX_CONNECTIONS:
            known = self._by_ray_until.items()
            self._by_ray_until = {n: until for n, until in known if until > now}
        self._by_ray_until[name] = now + RAY_FOR

    async def _hold(
        self, name: str, handle: Handle, endpoint: Endpoint, connection: BatchConnection
    ) -> None:
        """A call that takes long: Ray fails it when the actor or its node is gone."""
        try:
            while not connection.is_lost:
                await handle.long_poll.remote(endpoint.secret)
        except ray.exceptions.RayError as error:
            log.info("lines.actor_gone", actor=name, error=type(error).__name__)
        finally:
            connection.close()
            if self._connections.get(name) is connection:
                del self._connections[name]
            self._forget(name)

    async def _take_by_ray(self, name: str, batch: bytes) -> bytes:
        handle = await self._find(name)
        try:
            replies: bytes = await handle.handle_batch.remote(batch)
        except ray.exceptions.RayActorError:
            self._forget(name)
            raise
        return replies
