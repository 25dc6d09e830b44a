"""A caller's door to the actors: one for each process that talks to correlations."""

import contextlib
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from actors.directory import Directory
from actors.names import SUPERVISOR
from actors.process import mint
from actors.router import Router
from actors.watch import Watch, Watches
from core.address import Address
from core.config import Config
from core.messages import Message, Reply
from storage.clock import DatabaseClock
from storage.pool import CONNECTION_ERRORS, Pool, PoolOptions, open_pool


class Gateway:
    """Sends messages, watches correlations, reads Postgres."""

    def __init__(self, config: Config, pool: Pool) -> None:
        self.config = config
        self.pool = pool
        self.clock = DatabaseClock(time.monotonic, time.time)
        self._directory = Directory(config)
        self._router = Router(config, self._directory.take)
        self._watches = Watches(config, self._directory, feed=mint())

    @classmethod
    async def open(cls, config: Config) -> "Gateway":
        """Open it in the running loop; Ray must be initialised. Postgres may be away."""
        pool = await open_pool(
            PoolOptions(
                dsn=config.dsn,
                name="ingress",
                max_size=8,
                statement_timeout=config.request_timeout,
                plan_each_time=True,
            )
        )
        gateway = cls(config, pool)
        supervisor = await gateway._directory.handle(SUPERVISOR)
        await supervisor.adopt.remote(config)
        # Without it the wall clock serves for token ages until Postgres is back.
        with contextlib.suppress(*CONNECTION_ERRORS):
            await gateway.clock.sync(pool)
        return gateway

    async def send(self, message: Message) -> Reply:
        """Send one message; its answer means that it is committed."""
        return await self._router.send(message)

    async def send_many(self, messages: list[Message]) -> list[Reply]:
        """Send many; the answers in their order."""
        return await self._router.send_many(messages)

    def watch(self, address: Address) -> AbstractAsyncContextManager[Watch]:
        """Be told when this correlation may have changed."""
        return self._watches.watch(address)

    async def report(self) -> dict[str, Any]:
        """The supervisor's view of all actors."""
        supervisor = await self._directory.handle(SUPERVISOR)
        report: dict[str, Any] = await supervisor.report.remote()
        return report

    async def close(self) -> None:
        """Let go of everything this process holds."""
        await self._watches.close()
        await self._router.close()
        self.pool.terminate()
