"""The seed's own design: one transaction with a row lock for every event."""

import asyncio
import time

import asyncpg

from bench.harness import Measure
from bench.load import API_BODY, KAFKA_BODY, make_load
from bench.stage import Stage

CLIENTS = 16

SCHEMA = """
create table wait_states (
    id text primary key, execution_id text not null, node_id text not null,
    correlation_id text not null, received_events jsonb not null default '[]',
    api_response_data jsonb, kafka_event_data jsonb, status text not null default 'waiting',
    resumed_at timestamptz, version integer not null default 1,
    created_at timestamptz not null default now(), expires_at timestamptz not null,
    unique (execution_id, node_id)
);
create index on wait_states (execution_id, correlation_id);
create index on wait_states (correlation_id);
create index on wait_states (expires_at) where status = 'waiting';
"""
REGISTER = """
insert into wait_states (id, execution_id, node_id, correlation_id, expires_at)
values ($1, $2, $3, $4, now() + interval '1 hour')
"""
LOCK = """
select received_events from wait_states
 where execution_id = $1 and correlation_id = $2 and status = 'waiting' for update
"""
RECEIVE = """
update wait_states
   set {column} = $3, received_events = received_events || to_jsonb($4::text),
       version = version + 1,
       status = case when jsonb_array_length(received_events) = 1 then 'completed' else status end,
       resumed_at = case when jsonb_array_length(received_events) = 1 then now() end
 where execution_id = $1 and correlation_id = $2
"""


async def measure(stage: Stage, correlations: int) -> Measure:
    """The same three steps, each a transaction, sixteen at a time."""
    dsn = await stage.empty_database()
    pool = await asyncpg.create_pool(dsn, min_size=CLIENTS, max_size=CLIENTS)
    await pool.execute(SCHEMA)
    places = [message.address for message in make_load(correlations).registers]
    queue = iter(places)

    async def client() -> None:
        for place in queue:
            ids = (place.execution_id, place.correlation_id)
            await pool.execute(REGISTER, place.scoped_id, ids[0], "n", ids[1])
            await _receive(pool, ids, "api_response_data", API_BODY.decode())
            await _receive(pool, ids, "kafka_event_data", KAFKA_BODY.decode())

    try:
        cpu, started = stage.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
        done = await pool.fetchval("select count(*) from wait_states where status = 'completed'")
        assert done == correlations, done
    finally:
        await pool.close()
        await stage.drop(dsn)
    return Measure(3 * correlations, seconds, cpu)


async def _receive(pool: "asyncpg.Pool", ids: tuple[str, str], column: str, body: str) -> None:
    async with pool.acquire() as conn, conn.transaction():
        if await conn.fetchval(LOCK, *ids) is not None:
            await conn.execute(RECEIVE.format(column=column), *ids, body, column)
