"""Durable aggregation: register, callback and Kafka event per correlation, acked after commit."""

import asyncio
import os
import time
from functools import partial

import asyncpg

from actors.client import ActorClient
from bench.actors import actors
from bench.harness import Arm, Measure, Result, duel, spread
from bench.load import Load, make_load
from bench.peers import bare, dbos, rowlock
from bench.stage import Stage
from core.waits.messages import OfferReply, RegisterReply, Reply
from core.waits.strategy import Status

BATCH = 200
LANES = 8


async def run(stage: Stage) -> Result:
    """Ours against Postgres itself, a bare loop, DBOS and the row-lock design."""
    size = 6_000 if stage.quick else 20_000
    pairs = 1 if stage.quick else 5
    result = Result("aggregate", goals=GOALS)
    ours = partial(measure_ours, stage, size)
    await _against_pgbench(stage, ours, pairs, result)
    await _against(stage, ours, pairs, result, "bare", partial(bare.measure, stage, size, BATCH))
    await _against(
        stage, ours, pairs, result, "row_lock", partial(rowlock.measure, stage, size // 10)
    )
    await _against(
        stage, ours, min(pairs, 2), result, "dbos", partial(dbos.measure, stage, size // 200)
    )
    return result


GOALS = {
    "events / pgbench tps": "≥ 5",
    "events / bare": "≥ 0.5",
    "correlations / row_lock": "≥ 10",
    "correlations / dbos": "≥ 100",
}


async def measure_ours(stage: Stage, correlations: int) -> Measure:
    """Straight into the router, in batches; every answer and the tables are checked."""
    dsn = await stage.database()
    load = make_load(correlations)
    try:
        async with actors(dsn, shards=SHARDS) as gateway:
            await warm(gateway)
            cpu, started = stage.cpu_seconds(), time.perf_counter()
            replies = await send_all(gateway, load)
            seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
        await _check(dsn, correlations, replies)
    finally:
        await stage.drop(dsn)
    return Measure(load.messages, seconds, cpu)


# As one sets it for batches; by default the product starts half as many (decision 15).
SHARDS = int(os.environ.get("BENCH_SHARDS", os.cpu_count() or 1))


async def warm(gateway: ActorClient) -> None:
    await send_all(gateway, make_load(200))


async def send_all(gateway: ActorClient, load: Load) -> list[Reply]:
    """Each lane takes a batch of correlations through its three steps, then the next batch.

    As the peers do: whoever calls a service has registered first, and the answers come after.
    """
    replies: list[Reply] = []

    async def lane(number: int) -> None:
        mine = [phase[number::LANES] for phase in (load.registers, load.callbacks, load.events)]
        for start in range(0, len(mine[0]), BATCH):
            for phase in mine:
                replies.extend(await gateway.send_many(phase[start : start + BATCH]))

    await asyncio.gather(*(lane(number) for number in range(LANES)))
    return replies


async def _check(dsn: str, correlations: int, replies: list[Reply]) -> None:
    """A fast wrong run scores nothing."""
    opened = sum(isinstance(reply, RegisterReply) for reply in replies)
    done = sum(isinstance(r, OfferReply) and r.status is Status.COMPLETED for r in replies)
    assert (opened, done) == (correlations, correlations), (opened, done)
    conn = await asyncpg.connect(dsn)
    try:
        states = await conn.fetchval(
            "select count(*) from execution_wait_states where status = 'completed'"
        )
        lines = await conn.fetchval("select count(*) from wait_state_events")
    finally:
        await conn.close()
    assert states == correlations + 200, states
    assert lines == 2 * (correlations + 200), lines


async def _against_pgbench(stage: Stage, ours: Arm, pairs: int, result: Result) -> None:
    dsn = await stage.empty_database()
    stage.pgbench(dsn, "-i", "-q", "-s", "20")
    seconds = 3 if stage.quick else 6
    rates = {
        n: stage.pgbench(dsn, "-N", "-c", str(n), "-j", "2", "-T", str(seconds))
        for n in (8, 16, 32)
    }
    best = max(rates, key=lambda n: rates[n])

    async def peer() -> Measure:
        cpu = stage.cpu_seconds()
        tps = await asyncio.to_thread(
            stage.pgbench, dsn, "-N", "-c", str(best), "-j", "2", "-T", str(seconds)
        )
        return Measure(int(tps * seconds), seconds, stage.cpu_seconds() - cpu)

    found = await duel(ours, peer, pairs)
    result.ours["events_per_second"] = spread([mine.rate for mine, _ in found])
    result.ours["cpu_us_per_event"] = spread([mine.cpu_microseconds for mine, _ in found])
    result.peers["pgbench"] = {"clients": best, "tps": spread([other.rate for _, other in found])}
    result.ratios["events / pgbench tps"] = spread(
        [mine.rate / other.rate for mine, other in found]
    )
    await stage.drop(dsn)


async def _against(
    stage: Stage,
    ours: Arm,
    pairs: int,
    result: Result,
    name: str,
    peer: Arm,
) -> None:
    found = await duel(ours, peer, pairs)
    unit = "events" if name == "bare" else "correlations"
    share = 1 if name == "bare" else 3
    result.peers[name] = {f"{unit}_per_second": spread([other.rate / share for _, other in found])}
    result.ratios[f"{unit} / {name}"] = spread([mine.rate / other.rate for mine, other in found])
