"""Listens for notifications of changes, over one connection in each process with caches."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

import structlog

from services.shared.retry import Pauses, retrying
from storage.postgres.change_notifications import CHANNEL, read_notice
from storage.postgres.error_class import DATABASE_ERRORS
from storage.postgres.pool import Connection, PoolOptions, open_connection
from storage.postgres.queries import Q

log = structlog.get_logger("change_listener")

PING_INTERVAL = 15.0
"""Seconds after which an idle connection is checked by a query."""
_PAUSES = Pauses(base=0.1, cap=5.0)


class ChangeListener:
    """Calls the callbacks of a topic. Callbacks must be short and not block."""

    def __init__(self, *, ask_every: float = PING_INTERVAL) -> None:
        self._ask_every = ask_every
        self._calls: dict[str, list[Callable[[int | None], None]]] = {}
        self._on_connect: list[Callable[[], None]] = []
        self.listening = asyncio.Event()
        """Set while the connection receives notifications."""

    def on_change(self, topic: str, call: Callable[[], None]) -> None:
        """Register a callback for changes of a topic, and for changes that may have been missed."""
        self.on_tenant_change(topic, lambda _: call())

    def on_connect(self, call: Callable[[], None]) -> None:
        """Register a callback for each new connection: the database may have been restored."""
        self._on_connect.append(call)

    def on_tenant_change(self, topic: str, call: Callable[[int | None], None]) -> None:
        """Register a callback that gets the tenant of a change, or None for all tenants."""
        self._calls.setdefault(topic, []).append(call)

    async def run_forever(self, dsn: str) -> None:
        options = PoolOptions(dsn=dsn, name="change_listener", statement_timeout=5.0)
        await retrying(partial(self._listen, options), errors=DATABASE_ERRORS, pauses=_PAUSES)

    async def _listen(self, options: PoolOptions) -> None:
        conn = await open_connection(options)
        gone = asyncio.Event()
        try:
            conn.add_termination_listener(lambda _conn: gone.set())
            await conn.add_listener(CHANNEL, self._heard)
            self.listening.set()
            # Changes before this moment were not notified, so all topics count as changed.
            for topic in self._calls:
                self._call(topic, None)
            for call in self._on_connect:
                call()
            while not gone.is_set():
                await self._is_there(conn, gone)
            raise ConnectionError("the connection for notifications was closed")
        finally:
            self.listening.clear()
            conn.terminate()

    async def _is_there(self, conn: Connection, gone: asyncio.Event) -> None:
        """Wait for the end of the connection, and check it by a query at intervals."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gone.wait(), self._ask_every)
            return
        await conn.fetchval(Q["read_clock"])

    def _heard(self, _conn: object, _pid: object, _channel: object, said: object) -> None:
        self._call(*read_notice(str(said)))

    def _call(self, topic: str, tenant: int | None) -> None:
        for call in self._calls.get(topic, ()):
            try:
                call(tenant)
            except Exception:
                log.exception("change_listener.call_failed", topic=topic)
