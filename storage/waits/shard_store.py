"""A shard's access to Postgres: one connection for writes, a small pool for reads."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from core.access.usage_counter import UsageCounter
from core.shared.address import Address
from core.waits.spec import WaitSpec
from core.waits.state import ParkedEvent
from storage.postgres.clock import DatabaseClock
from storage.postgres.error_class import is_server_error
from storage.postgres.pool import Connection, Pool, PoolOptions, open_pool
from storage.postgres.write_connection import WriteConnection
from storage.waits import spec_cache, waits
from storage.waits.flush import FlushWriter, WaitChange
from storage.waits.probe import probe_waits
from storage.waits.usage_counts import count_changes


class ShardStore:
    """Connects on first use, and again after a connection is lost."""

    def __init__(
        self,
        options: PoolOptions,
        owner: str,
        early_ttl: float,
        clock: DatabaseClock,
        usage: UsageCounter | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._usage = usage or UsageCounter()
        self._flush_writer = FlushWriter(owner, early_ttl)
        self._writer = WriteConnection(options, clock, self._is_connected, self._is_lost)
        self._pool: Pool | None = None
        # Called when the connection for writes is lost.
        self.on_lost: Callable[[], None] = lambda: None

    async def pool(self) -> Pool:
        if self._pool is None:
            self._pool = await open_pool(self._options, self._clock.measure)
        return self._pool

    async def load(self, requests: Sequence[waits.WaitLookup]) -> dict[bytes, waits.LoadedWait]:
        async with self.reader() as conn:
            return await waits.load(conn, requests)

    async def load_early(self, keys: Sequence[bytes]) -> dict[bytes, list[ParkedEvent]]:
        async with self.reader() as conn:
            return await waits.load_early(conn, keys)

    @contextlib.asynccontextmanager
    async def reader(self) -> AsyncIterator[Connection]:
        pool = await self.pool()
        try:
            async with pool.acquire(timeout=5.0) as conn:
                yield conn
        except Exception as error:
            if is_server_error(error):
                await pool.expire_connections()  # the next read connects anew
            raise

    async def flush(self, changes: Sequence[WaitChange]) -> set[bytes]:
        """Write changes in one flush; return the keys whose state was stored."""
        kept = await self._writer.use(lambda conn: self._flush_writer.flush(conn, changes))
        count_changes(self._usage, changes, kept)
        return kept

    async def probe(self) -> None:
        """Write a trial row; raise the error of Postgres if it accepts none."""
        await self._writer.use(probe_waits)

    async def _is_connected(self) -> None:
        self._flush_writer.forget()
        if self._pool is not None:
            await self._pool.expire_connections()  # readers must not stay with the old server

    def _is_lost(self) -> None:
        """Forget what the lost server had stored: the next one may have less or more."""
        self._flush_writer.forget()
        self.on_lost()

    async def restore_spec(self, tenant: int, spec: WaitSpec, last_deadline: float) -> None:
        async with self.reader() as conn:
            await spec_cache.restore_spec(conn, tenant, spec, last_deadline)

    async def correlation_of_node(self, address: Address, node_id: str) -> str | None:
        return await waits.correlation_of_node(await self.pool(), address, node_id)

    async def close(self) -> None:
        self._writer.close()
        if self._pool is not None:
            self._pool.terminate()
