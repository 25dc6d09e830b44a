"""Deadlines: a million pending, how late the due ones fire, and how fast a crowd of them."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager, suppress

import asyncpg

from actors.client import ActorClient
from bench.actors import actors
from bench.fill import fill, register
from bench.harness import Result, err, spread
from bench.load import make_load
from bench.shards import until_hot
from bench.stage import Stage
from bench.stats import percentile

SPREAD = 10.0

# Let some of the registered waits (due in an hour; the others are due tomorrow) fall due, evenly
# over a while: their rows, as a past caller with a longer timeout would have left them.
FALL_DUE = """
with chosen as (
    select wait_key,
           now() + $3::float8 * interval '1 second'
                 + row_number() over () * ($2::float8 / $1) * interval '1 second' as due
      from execution_wait_states
     where due_at < now() + interval '12 hours' and status = 'waiting' and version = 1
     limit $1)
update execution_wait_states w
   set created_at = c.due - interval '1 hour', due_at = c.due, expires_at = c.due
  from chosen c
 where w.wait_key = c.wait_key
"""
# By the index on due_at, so that looking costs next to nothing.
COUNT = "select count(*) from execution_wait_states where due_at <= now() and status = 'timeout'"
# Until the flush that ended the wait, which is later than the decision. One write ends a wait, so
# its second version is the last.
FIRED = """
select extract(epoch from updated_at - due_at)::float8 as skew, version
  from execution_wait_states
 where status = 'timeout'
"""


async def run(stage: Stage) -> Result:
    """Idle, under half of the peak load, and fifty thousand at once."""
    pending = 50_000 if stage.quick else 1_000_000
    due = 1_000 if stage.quick else 5_000
    crowd = 5_000 if stage.quick else 50_000
    result = Result("timers", goals={"idle p99": "≤ 0.25 s", "loaded p99": "≤ 0.25 s"})
    result.ours["pending"] = pending
    dsn = await stage.database()
    err.print(f"  filling {pending:,} pending waits")
    await fill(dsn, pending)
    conn = await asyncpg.connect(dsn)
    try:
        for name, busy in (("idle", False), ("loaded", True)):
            async with _timed(dsn) as gateway:
                skews = await _skews(gateway, conn, due, busy=busy)
            late = {f"p{share}": percentile(skews, share / 100) for share in (50, 99)}
            err.print(f"  {name}: {late}")
            result.ours[name] = {"n": len(skews), **{k: round(v, 4) for k, v in late.items()}}
            result.ratios[f"{name} p99"] = spread([late["p99"]])
        async with _timed(dsn) as gateway:
            result.ours["crowd"] = await _crowd(gateway, conn, crowd)
    finally:
        await conn.close()
        await stage.drop(dsn)
    return result


def _timed(dsn: str) -> AbstractAsyncContextManager[ActorClient]:
    # Passivated at once: rows that change under a shard must not be in its memory.
    return actors(dsn, shards=1, idle_after=0.5, retention=10**9)


async def _skews(
    gateway: ActorClient, conn: "asyncpg.Connection", due: int, *, busy: bool
) -> list[float]:
    await _fall_due(gateway, conn, due, SPREAD)
    load = asyncio.create_task(_keep_busy(gateway)) if busy else None
    try:
        return await _until_fired(conn, due)
    finally:
        if load is not None:
            load.cancel()
            with suppress(asyncio.CancelledError):
                await load


async def _crowd(gateway: ActorClient, conn: "asyncpg.Connection", crowd: int) -> dict[str, float]:
    await _fall_due(gateway, conn, crowd, 0.001)
    late = await _until_fired(conn, crowd)
    return {"due_at_once": crowd, "fires_per_second": round(crowd / max(late), 1)}


async def _fall_due(
    gateway: ActorClient, conn: "asyncpg.Connection", count: int, over: float
) -> None:
    await conn.execute("delete from execution_wait_states where status <> 'waiting'")
    await register(gateway, count)
    await until_hot(gateway, 0)
    # Far enough ahead for the rows to be written and for the timer to read them.
    ahead = 8.0 + count / 5_000
    changed = await conn.execute(FALL_DUE, count, over, ahead)
    assert changed == f"UPDATE {count}", changed


async def _keep_busy(gateway: ActorClient) -> None:
    """About half of what one shard takes: a batch, then as long a pause."""
    while True:
        load = make_load(200)
        for phase in (load.registers, load.callbacks, load.events):
            started = time.perf_counter()
            await gateway.send_many(phase)
            await asyncio.sleep(time.perf_counter() - started)


async def _until_fired(conn: "asyncpg.Connection", due: int, within: float = 180.0) -> list[float]:
    """How late each was; all that were due have fired, once, and no other."""
    deadline = time.monotonic() + within
    while (fired := await conn.fetchval(COUNT)) < due:
        assert time.monotonic() < deadline, f"only {fired} of {due} fired"
        await asyncio.sleep(1.0)
    rows = await conn.fetch(FIRED)
    assert len(rows) == due, f"{len(rows)} fired, {due} were due"
    assert {row["version"] for row in rows} == {2}, "a wait ended more than once"
    return [row["skew"] for row in rows]
