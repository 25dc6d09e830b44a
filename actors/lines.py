"""The lines of one process: opened when first needed, given up when Ray says the actor is gone."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import ray
import structlog

from actors.line import Endpoint, Line

log = structlog.get_logger("lines")

# Where a port cannot be reached, as behind a firewall between nodes, Ray's own calls do it.
RAY_FOR = 60.0

Handle = Any
Find = Callable[[str], Awaitable[Handle]]


class Lines:
    """Takes batches to actors by name."""

    def __init__(self, find: Find, forget: Callable[[str], None]) -> None:
        self._find = find
        self._forget = forget
        self._lines: dict[str, Line] = {}
        self._opening: dict[str, asyncio.Task[Line | None]] = {}
        self._holding: set[asyncio.Task[None]] = set()
        self._by_ray_until: dict[str, float] = {}

    async def take(self, name: str, batch: bytes) -> bytes:
        """Let this actor handle one batch.

        Raises:
            RayError, LineLostError: It is away.
            LineFailedError: It could not.
        """
        line = self._lines.get(name)
        if line is None or line.lost:
            line = await self._opened(name)
        if line is None:
            return await self._take_by_ray(name, batch)
        return await line.call(batch)

    async def close(self) -> None:
        """Hang up everywhere."""
        for task in (*self._opening.values(), *self._holding):
            task.cancel()
        for line in self._lines.values():
            line.close()

    async def _opened(self, name: str) -> Line | None:
        """Many askers share one attempt."""
        if time.monotonic() < self._by_ray_until.get(name, 0.0):
            return None
        task = self._opening.get(name)
        if task is None:
            task = asyncio.create_task(self._open(name))
            self._opening[name] = task
            task.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(task)

    async def _open(self, name: str) -> Line | None:
        handle = await self._find(name)
        try:
            endpoint: Endpoint | None = await handle.endpoint.remote()
        except ray.exceptions.RayActorError:
            self._forget(name)
            raise
        if endpoint is None:
            self._by_ray_until[name] = time.monotonic() + RAY_FOR
            return None
        try:
            line = await Line.open(endpoint)
        except OSError as error:
            log.warning("lines.unreachable", actor=name, port=endpoint.port, error=str(error))
            self._by_ray_until[name] = time.monotonic() + RAY_FOR
            return None
        self._lines[name] = line
        holding = asyncio.create_task(self._hold(name, handle, line))
        self._holding.add(holding)
        holding.add_done_callback(self._holding.discard)
        return line

    async def _hold(self, name: str, handle: Handle, line: Line) -> None:
        """A call that never returns: Ray fails it when the actor or its node is gone."""
        try:
            await handle.hold.remote()
        except ray.exceptions.RayError as error:
            log.info("lines.actor_gone", actor=name, error=type(error).__name__)
        line.close()
        if self._lines.get(name) is line:
            del self._lines[name]
        self._forget(name)

    async def _take_by_ray(self, name: str, batch: bytes) -> bytes:
        handle = await self._find(name)
        try:
            replies: bytes = await handle.take.remote(batch)
        except ray.exceptions.RayActorError:
            self._forget(name)
            raise
        return replies
