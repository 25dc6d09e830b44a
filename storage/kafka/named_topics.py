"""The Kafka topics that waits name."""

from collections.abc import Iterable

from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


async def name_topics(pool: Pool, tenant: int, topics: Iterable[str], last_deadline: float) -> None:
    """Store that this tenant's waits name these topics until `last_deadline`."""
    await pool.execute(Q["name_topics"], tenant, sorted(topics), last_deadline)


async def named_topics(pool: Pool | Connection) -> list[tuple[str, str]]:
    """Return every topic that a live wait may name, with the tenant's slug."""
    return [(row["topic"], row["slug"]) for row in await pool.fetch(Q["named_topics"])]


async def named_by(pool: Pool, tenant: int, limit: int) -> list[str]:
    """Return the topics that live waits of one tenant may name."""
    return [row["topic"] for row in await pool.fetch(Q["topics_named_by"], tenant, limit)]


async def forget_topics(pool: Pool, retention: float) -> None:
    """Delete topics that no wait has named for `retention` seconds."""
    await pool.execute(Q["forget_topics"], retention)
