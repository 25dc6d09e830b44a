"""A subscription that gets another pool takes along what waits in order: nothing passes it."""

from core.dispatch.subscription import Refusal, Subscription
from storage.postgres.pool import Connection
from storage.postgres.queries import Q

MOST_MOVED = 10_000
"""In one transaction. What is not delivered in order stays where it is, however much that is."""


async def move(conn: Connection, held: Subscription, pool_no: int) -> Refusal | None:
    """Move the ordered jobs of a held subscription to the pool that it gets, in its transaction."""
    if pool_no == held.pool_no:
        return None
    whose = (held.tenant, held.subscription_id, held.pool_no)
    if await conn.fetchval(Q["count_ordered_jobs"], *whose, MOST_MOVED + 1) > MOST_MOVED:
        return Refusal.TOO_MANY_JOBS
    await conn.execute(Q["move_ordered_jobs"], *whose, pool_no)
    await conn.execute(Q["copy_parked_groups"], held.tenant, held.pool_no, pool_no, held.code)
    await conn.execute(Q["drop_empty_parks"], held.tenant, held.pool_no, held.code)
    return None
