"""Open waits by the million: rows as past callers left them, and waits that are hot in memory."""

import asyncpg

from actors.client import ActorClient
from bench.actors import actors
from bench.load import make_load
from core.shared.address import correlation_prefix

CHUNK = 5_000
BATCH = 500
# How the copies differ from the row that the product wrote. They are due tomorrow.
DIFFERENT = {
    "wait_key": "decode(md5('k' || n), 'hex')",
    "execution_id": "'e' || n",
    "correlation_id": "'c' || n",
    "due_at": "due_at + interval '1 day' + n * interval '1 millisecond'",
    "expires_at": "expires_at + interval '1 day' + n * interval '1 millisecond'",
}
# The same, ended, and all under one correlation id.
SHARED = "shared"
_PREFIX = correlation_prefix(1, SHARED).hex()
ENDED = DIFFERENT | {
    "wait_key": f"'\\x{_PREFIX}'::bytea || int8send(n * 9223372036854)",
    "correlation_id": f"'{SHARED}'",
    "status": "'completed'",
    "resumed_at": "now()",
}
COLUMNS = """
select attname from pg_attribute
 where attrelid = 'execution_wait_states'::regclass and attnum > 0 and not attisdropped
"""


async def fill(dsn: str, count: int, different: dict[str, str] = DIFFERENT) -> None:
    """Open one wait in an empty database, and copy its row until there are `count`."""
    async with actors(dsn, shards=1) as gateway:
        await register(gateway, 1)
    conn = await asyncpg.connect(dsn)
    try:
        names = [row["attname"] for row in await conn.fetch(COLUMNS)]
        values = [different.get(name, name) for name in names]
        await conn.execute(
            f"insert into execution_wait_states ({', '.join(names)}) select {', '.join(values)}"
            f" from execution_wait_states, generate_series(2, {count}) as n"
        )
        # Frozen, so that nobody who reads them later has to write.
        await conn.execute("vacuum (freeze, analyze) execution_wait_states")
    finally:
        await conn.close()


async def register(gateway: ActorClient, count: int) -> None:
    """Open waits through the router; they are hot then."""
    for first in range(0, count, CHUNK):
        messages = make_load(min(CHUNK, count - first)).registers
        for start in range(0, len(messages), BATCH):
            await gateway.send_many(messages[start : start + BATCH])
