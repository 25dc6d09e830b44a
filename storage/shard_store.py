"""Postgres as a shard sees it: one held connection to write, a small pool to read."""

from collections.abc import Callable, Sequence

from core.address import Address
from core.usage_counter import UsageCounter
from core.wait import Parked
from storage import waits
from storage.journal import Change, Journal
from storage.pool import (
    CONNECTION_ERRORS,
    Connection,
    Pool,
    PoolOptions,
    open_connection,
    open_pool,
)
from storage.usage_counts import count_changes


class ShardStore:
    """Connects when first used, and again after Postgres was away."""

    transient: tuple[type[Exception], ...] = CONNECTION_ERRORS

    def __init__(
        self, options: PoolOptions, owner: str, early_ttl: float, usage: UsageCounter | None = None
    ) -> None:
        self._options = options
        self._usage = usage or UsageCounter()
        self._journal = Journal(owner, early_ttl)
        self._writer: Connection | None = None
        self._pool: Pool | None = None
        # Called when the connection to write by is lost.
        self.on_lost: Callable[[], None] = lambda: None

    async def pool(self) -> Pool:
        """The readers' pool."""
        if self._pool is None:
            self._pool = await open_pool(self._options)
        return self._pool

    async def load(self, requests: Sequence[waits.LoadRequest]) -> dict[bytes, waits.Loaded]:
        """All that is known of these keys."""
        async with (await self.pool()).acquire(timeout=5.0) as conn:
            return await waits.load(conn, requests)

    async def load_early(self, keys: Sequence[bytes]) -> dict[bytes, list[Parked]]:
        """The events that came before these were registered."""
        async with (await self.pool()).acquire(timeout=5.0) as conn:
            return await waits.load_early(conn, keys)

    async def flush(self, changes: Sequence[Change]) -> set[bytes]:
        """Write changes together; the keys whose row was kept."""
        if self._writer is None or self._writer.is_closed():
            self._writer = await open_connection(self._options)
            self._writer.add_termination_listener(self._is_lost)
        try:
            kept = await self._journal.flush(self._writer, changes)
        except CONNECTION_ERRORS:
            # Its state is unknown now: never write through it again.
            self._writer.terminate()
            self._writer = None
            raise
        count_changes(self._usage, changes, kept)
        return kept

    def _is_lost(self, _conn: object) -> None:
        """Believe nothing any more that the server had: the next may have lost or regained it."""
        self._journal.forget()
        self.on_lost()

    async def correlation_of_node(self, address: Address, node_id: str) -> str | None:
        """Which correlation a node of this execution already has."""
        return await waits.correlation_of_node(await self.pool(), address, node_id)

    async def close(self) -> None:
        """Let go of all connections."""
        if self._writer is not None:
            self._writer.terminate()
        if self._pool is not None:
            self._pool.terminate()
