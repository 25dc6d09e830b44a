"""Deadlines: a million pending, how late the due ones fire, and how fast a crowd of them."""

import asyncio
import time

import asyncpg

from actors.gateway import Gateway
from bench.actors import actors
from bench.harness import Result, err
from bench.load import SPEC, make_load
from bench.stage import Stage

SPREAD = 10.0

FILL = """
insert into execution_wait_states
       (wait_key, tenant_id, execution_id, correlation_id, node_id, aggregation_strategy, status,
        version, log_length, spec, marks, registered_by, created_at, updated_at, expires_at, due_at)
select decode(md5('k' || n), 'hex'), 1, 'e' || n, 'c' || n, 'n', 'all', 'waiting', 1, 0, $1::json,
       '[["pending",0.0,0,"",""],["pending",0.0,0,"",""]]'::json, 'bench', now(), now(),
       now() + interval '1 day' + n * interval '1 millisecond',
       now() + interval '1 day' + n * interval '1 millisecond'
  from generate_series(1, $2) as n
"""
# Let some of the registered waits fall due, evenly over a while: their rows, as a past caller
# with a longer timeout would have left them.
FALL_DUE = """
with chosen as (
    select wait_key, row_number() over () as n
      from execution_wait_states
     where registered_by <> 'bench' and status = 'waiting'
     limit $1)
update execution_wait_states w
   set created_at = now() + interval '8 seconds' + c.n * ($2::float8 / $1) * interval '1 second'
                    - interval '1 hour',
       due_at = now() + interval '8 seconds' + c.n * ($2::float8 / $1) * interval '1 second',
       expires_at = now() + interval '8 seconds' + c.n * ($2::float8 / $1) * interval '1 second'
  from chosen c
 where w.wait_key = c.wait_key
"""
SKEWS = """
select extract(epoch from (ending ->> 'at')::float8 * interval '1 second')::float8
       - extract(epoch from due_at)::float8 as skew
  from execution_wait_states
 where status = 'timeout'
"""


async def run(stage: Stage) -> Result:
    """Idle, under half of the peak load, and fifty thousand at once."""
    pending = 100_000 if stage.quick else 1_000_000
    due = 1_000 if stage.quick else 5_000
    crowd = 5_000 if stage.quick else 50_000
    result = Result("timers", goals={"idle p99": "≤ 0.25 s", "loaded p99": "≤ 0.25 s"})
    dsn = await stage.database()
    conn = await asyncpg.connect(dsn)
    try:
        err.print(f"  filling {pending:,} pending waits")
        await conn.execute(FILL, SPEC.decode(), pending)
        await conn.execute("vacuum analyze execution_wait_states")
        result.ours["pending"] = pending
        for name, busy in (("idle", False), ("loaded", True)):
            # Passivated at once: rows that change under a shard must not be in its memory.
            async with actors(dsn, shards=1, idle_after=0.5, retention=10**9) as gateway:
                skews = await _skews(gateway, conn, due, busy=busy)
            result.ours[name] = {"p50": _at(skews, 0.5), "p99": _at(skews, 0.99), "n": len(skews)}
            result.ratios[f"{name} p99"] = {
                key: _at(skews, 0.99) for key in ("median", "low", "high")
            }
        async with actors(dsn, shards=1, idle_after=0.5, retention=10**9) as gateway:
            result.ours["fires_per_second"] = await _crowd(gateway, conn, crowd)
    finally:
        await conn.close()
        await stage.drop(dsn)
    return result


async def _skews(
    gateway: Gateway, conn: "asyncpg.Connection", due: int, *, busy: bool
) -> list[float]:
    await conn.execute("delete from execution_wait_states where status <> 'waiting'")
    await _register(gateway, due)
    await conn.execute(FALL_DUE, due, SPREAD)
    load = asyncio.create_task(_keep_busy(gateway)) if busy else None
    try:
        await _until_fired(conn, due)
    finally:
        if load is not None:
            load.cancel()
    return sorted(row["skew"] for row in await conn.fetch(SKEWS))


async def _crowd(gateway: Gateway, conn: "asyncpg.Connection", crowd: int) -> float:
    await conn.execute("delete from execution_wait_states where status <> 'waiting'")
    await _register(gateway, crowd)
    await conn.execute(FALL_DUE, crowd, 0.001)
    await _until_fired(conn, crowd)
    seconds = await conn.fetchval(
        "select max((ending ->> 'at')::float8) - min(extract(epoch from due_at)::float8)"
        " from execution_wait_states where status = 'timeout'"
    )
    return round(crowd / seconds, 1)


async def _register(gateway: Gateway, count: int) -> None:
    messages = make_load(count).registers
    for start in range(0, count, 500):
        await gateway.send_many(messages[start : start + 500])
    await asyncio.sleep(2.5)  # until they have left the shard's memory


async def _keep_busy(gateway: Gateway) -> None:
    """About half of what one shard takes: a batch, then as long a pause."""
    while True:
        load = make_load(200)
        for phase in (load.registers, load.callbacks, load.events):
            started = time.perf_counter()
            await gateway.send_many(phase)
            await asyncio.sleep(time.perf_counter() - started)


async def _until_fired(conn: "asyncpg.Connection", due: int, within: float = 180.0) -> None:
    deadline = time.monotonic() + within
    while True:
        fired = await conn.fetchval(
            "select count(*) from execution_wait_states where status = 'timeout'"
        )
        if fired >= due:
            assert fired == due, f"{fired} fired, {due} were due"
            return
        assert time.monotonic() < deadline, f"only {fired} of {due} fired"
        await asyncio.sleep(0.5)


def _at(values: list[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(len(values) * share))], 4)
