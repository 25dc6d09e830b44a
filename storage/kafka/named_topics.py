"""The topics that waits name."""

from collections.abc import Iterable

from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q


async def name_topics(pool: Pool, tenant: int, topics: Iterable[str], last_deadline: float) -> None:
    """Waits of this tenant await events on these topics, until then at the latest."""
    await pool.execute(Q["name_topics"], tenant, sorted(topics), last_deadline)


async def named_topics(pool: Pool | Connection) -> list[tuple[str, str]]:
    """Every topic that a live wait may name, with the tenant's slug."""
    return [(row["topic"], row["slug"]) for row in await pool.fetch(Q["named_topics"])]


async def named_by(pool: Pool, tenant: int, limit: int) -> list[str]:
    """The topics that live waits of one tenant may name."""
    return [row["topic"] for row in await pool.fetch(Q["topics_named_by"], tenant, limit)]


async def forget_topics(pool: Pool, retention: float) -> None:
    """Remove topics that no wait has named for long."""
    await pool.execute(Q["forget_topics"], retention)
