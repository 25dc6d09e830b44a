"""What ingest writes itself: events without ids and dead letters."""

from collections.abc import Sequence

from core.access.usage_counter import UsageCounter
from core.kafka.message import KafkaMessage
from core.waits.state import ParkedEvent
from storage.kafka import dead_letters
from storage.kafka.dead_letters import count_dead_letters
from storage.postgres.pool import Pool
from storage.waits.flush import write_parked
from storage.waits.probe import probe_waits
from storage.waits.usage_counts import count_parked


class PostgresIngestStore:
    """Writes to Postgres and counts what it wrote."""

    def __init__(self, pool: Pool, early_ttl: float, usage: UsageCounter | None = None) -> None:
        self._pool = pool
        self._early_ttl = early_ttl
        self._usage = usage or UsageCounter()

    async def park(self, events: Sequence[ParkedEvent]) -> None:
        async with self._pool.acquire() as conn:
            await write_parked(conn, [(b"", event) for event in events], self._early_ttl)
        count_parked(self._usage, events)

    async def probe(self) -> None:
        async with self._pool.acquire() as conn:
            await probe_waits(conn)

    async def add_dead_letters(
        self, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
    ) -> None:
        await dead_letters.add(self._pool, tenant, failed)
        count_dead_letters(self._usage, tenant, failed)


class RedriveStore(PostgresIngestStore):
    """The store of a redrive, whose messages are dead letters already."""

    async def add_dead_letters(
        self, tenant: int, failed: Sequence[tuple[KafkaMessage, str]]
    ) -> None:
        """Do nothing: `Redrive` updates the error of the dead letter."""
