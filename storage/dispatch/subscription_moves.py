"""Moves a subscription's waiting ordered jobs to its new pool, so that their order is kept."""

from core.dispatch.subscription import Subscription, SubscriptionRefusal
from storage.postgres.pool import Connection
from storage.postgres.queries import Q

MAX_MOVED = 10_000
"""Jobs that one transaction moves. Unordered jobs stay in the old pool."""


async def move(conn: Connection, current: Subscription, pool_no: int) -> SubscriptionRefusal | None:
    """Move the ordered jobs of a locked subscription to its new pool, in the same transaction."""
    if pool_no == current.pool_no:
        return None
    whose = (current.tenant, current.subscription_id, current.pool_no)
    if await conn.fetchval(Q["count_ordered_jobs"], *whose, MAX_MOVED + 1) > MAX_MOVED:
        return SubscriptionRefusal.TOO_MANY_JOBS
    await conn.execute(Q["move_ordered_jobs"], *whose, pool_no)
    await conn.execute(
        Q["copy_parked_groups"], current.tenant, current.pool_no, pool_no, current.code
    )
    await conn.execute(Q["drop_empty_parks"], current.tenant, current.pool_no, current.code)
    return None
