"""What Postgres means to do for a query, if it goes by indexes at all."""

import asyncpg

from storage.postgres.queries import Q


async def plan_by_index(dsn: str, query: str, arguments: tuple[object, ...]) -> str:
    """The plan with these arguments; tables that are nearly empty are not read whole for it."""
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute(
            "set enable_seqscan = off; set enable_bitmapscan = off;"
            " set plan_cache_mode = force_custom_plan"
        )
        plan = await conn.fetch(f"explain {Q[query]}", *arguments)
    finally:
        await conn.close()
    return "\n".join(row[0] for row in plan)
