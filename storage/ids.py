"""Numbers for those who make ids."""

from storage.pool import Connection, Pool
from storage.queries import Q


async def draw_maker(pool: Pool | Connection) -> int:
    """A number that none of the last thousand processes has."""
    number: int = await pool.fetchval(Q["draw_id_maker"])
    return number
