"""What a correlation costs in a shard's memory: hot, crowded out, and at the most."""

import psutil

from actors.client import ActorClient
from bench.actors import actors
from bench.fill import register
from bench.harness import Result, err
from bench.shards import hot_in, shards_of, until_hot
from bench.stage import Stage

WARM = 5_000
STEP = 10_000


async def run(stage: Stage) -> Result:
    """One crowd fills a shard up to its limit; two more take its place, one after the other."""
    result = Result("memory")
    for size in [50_000] if stage.quick else [100_000, 1_000_000]:
        dsn = await stage.database()
        try:
            found = await _measure(dsn, size)
        finally:
            await stage.drop(dsn)
        err.print(f"  {size:,}: {found}")
        result.ours[f"{size:,}"] = found
        for name, goal in (("bytes_hot", 3000), ("bytes_passivated", 100), ("most_hot", 1.25)):
            ratio = f"{name.replace('_', ' ')} at {size:,}"
            result.ratios[ratio] = dict.fromkeys(("median", "low", "high"), found[name])
            result.goals[ratio] = f"≤ {goal:g}"
    return result


async def _measure(dsn: str, size: int) -> dict[str, float]:
    # Nobody leaves by being idle here: only the limit makes them go.
    settings = {"shards": 1, "hot_limit": size, "idle_after": 3600.0, "request_timeout": 60.0}
    async with actors(dsn, **settings) as gateway:
        # Some come first, so that pools and caches are there already.
        await register(gateway, WARM)
        shard = psutil.Process((await shards_of(gateway))[0]["pid"])
        warm = shard.memory_full_info().uss
        await register(gateway, size - WARM)
        assert await hot_in(gateway) == size
        full = shard.memory_full_info().uss
        most = await _crowd_out(gateway, size)
        once = shard.memory_full_info().uss
        most = max(most, await _crowd_out(gateway, size))
        twice = shard.memory_full_info().uss
    return {
        "bytes_hot": round((full - warm) / (size - WARM)),
        # As many came as went, and Python had room from the first exchange: what has grown is
        # what those who left have cost.
        "bytes_passivated": round((twice - once) / size),
        # Of the limit; a shard looks once a second.
        "most_hot": round(most / size, 3),
    }


async def _crowd_out(gateway: ActorClient, size: int) -> int:
    """Let as many come as are there; the most that were hot at once."""
    most = 0
    for _ in range(0, size, STEP):
        await register(gateway, STEP)
        most = max(most, await hot_in(gateway))
    await until_hot(gateway, size)
    return most
