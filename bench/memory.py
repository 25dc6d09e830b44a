"""What a correlation costs: bytes in a shard's memory while hot, and after it has left."""

import asyncio
import time
from typing import Any

import psutil

from actors.gateway import Gateway
from bench.actors import actors
from bench.harness import Result, err
from bench.load import make_load
from bench.stage import Stage

WARM = 5_000
CHUNK = 5_000


async def run(stage: Stage) -> Result:
    """Register many, look at the shard's private memory; let them passivate, look again."""
    sizes = [100_000] if stage.quick else [100_000, 1_000_000]
    result = Result("memory", goals={f"bytes hot at {size}": "≤ 3000" for size in sizes})
    for size in sizes:
        dsn = await stage.database()
        try:
            hot, left = await _measure(dsn, size)
        finally:
            await stage.drop(dsn)
        result.ours[str(size)] = {"bytes_hot": round(hot), "bytes_passivated": round(left)}
        result.ratios[f"bytes hot at {size}"] = dict.fromkeys(("median", "low", "high"), round(hot))
    return result


async def _measure(dsn: str, size: int) -> tuple[float, float]:
    settings = {"shards": 1, "hot_limit": 2 * size, "idle_after": 30.0, "request_timeout": 60.0}
    async with actors(dsn, **settings) as gateway:
        # A first crowd comes and goes, so that pools and caches are there already. It is small:
        # Python keeps freed memory, and what it kept would not count.
        await _register(gateway, WARM)
        await _until_hot(gateway, 0)
        shard = psutil.Process((await _shard(gateway))["pid"])
        before = shard.memory_full_info().uss
        await _register(gateway, size)
        hot = await _until_hot(gateway, size)
        while_hot = shard.memory_full_info().uss
        await _until_hot(gateway, 0)
        after = shard.memory_full_info().uss
    err.print(f"  {size:,}: {(while_hot - before) / hot:,.0f} bytes each while hot")
    # What is left after is what Python keeps for the next crowd, whatever its size.
    return (while_hot - before) / hot, (after - before) / size


async def _register(gateway: Gateway, count: int) -> None:
    for _ in range(0, count, CHUNK):
        messages = make_load(CHUNK).registers
        for start in range(0, CHUNK, 500):
            await gateway.send_many(messages[start : start + 500])


async def _until_hot(gateway: Gateway, wanted: int, within: float = 300.0) -> int:
    """Wait until the shard holds `wanted` correlations, or as many as it ever will."""
    deadline = time.monotonic() + within
    while True:
        hot: int = (await _shard(gateway))["stats"]["hot"]
        if (hot == 0) if wanted == 0 else (hot >= wanted):
            return hot
        assert time.monotonic() < deadline, f"{hot} are hot, not {wanted}"
        await asyncio.sleep(1.0)


async def _shard(gateway: Gateway) -> dict[str, Any]:
    report = await gateway.report()
    return next(actor for actor in report["actors"] if actor["name"] == "shard-0")
