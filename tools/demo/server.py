"""The base of fake services: an HTTP server on this machine that records what comes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web

from tools.load.tasks import TaskSet

_LOOPBACK = "127.0.0.1"
_BACKLOG = 4096
_SHUTDOWN = 0.2


class LocalServer(ABC):
    """A server on a free port, or on `port`. Use it with `async with`."""

    def __init__(self, port: int = 0) -> None:
        self.tasks = TaskSet()
        """What the server does in the background until it closes."""
        self._port = port
        self._changed = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        server = web.Server(self.serve, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN)
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, self._port, backlog=_BACKLOG).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.tasks.finish()
        finally:
            if self._runner is not None:
                await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self._port}"

    @abstractmethod
    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""

    def notify(self) -> None:
        """Let `until` check again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, check: Callable[[Self], Any], within: float = 30.0) -> Any:
        """Wait until `check` finds something true in the server's records, and return that."""
        async with asyncio.timeout(within):
            while not (found := check(self)):
                await self._changed.wait()
        return found
