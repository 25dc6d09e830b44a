"""Trial writes: rows that are written and rolled back to test whether Postgres accepts writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from storage.postgres.pool import Connection

NOT_KEPT = "Postgres did not keep a row whose key no other row can have"


@asynccontextmanager
async def rolled_back(conn: Connection) -> AsyncIterator[None]:
    """Run the body in a transaction that is always rolled back."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()
