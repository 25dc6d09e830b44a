"""Leases the numbers that keep the ids of different processes apart."""

from storage.postgres.pool import Connection, Pool
from storage.postgres.queries import Q

LEASE_SECONDS = 300.0


async def lease_maker(pool: Pool | Connection, holder: str) -> int | None:
    """Lease the number that has been free longest; None if another process took it first."""
    number: int | None = await pool.fetchval(Q["lease_id_maker"], holder, LEASE_SECONDS)
    return number


async def renew_maker(pool: Pool | Connection, number: int, holder: str) -> bool:
    """Extend a lease; return False if the holder has lost it."""
    renewed = await pool.fetchval(Q["renew_id_maker"], number, holder, LEASE_SECONDS)
    return renewed is not None


async def release_maker(pool: Pool | Connection, number: int, holder: str) -> None:
    await pool.execute(Q["renew_id_maker"], number, holder, 0.0)
