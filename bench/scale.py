"""Whether it stays as fast: `aggregate` with many correlations open already, and on more shards."""

import time
from dataclasses import dataclass
from functools import partial

import asyncpg

from bench.actors import actors
from bench.aggregate import send_all, warm
from bench.fill import ENDED, SHARED, fill, register
from bench.harness import Measure, Result, err, interleave, ratios_of, spread
from bench.load import Load, make_chosen_load, make_load
from bench.stage import Stage
from core.shared.config import Config
from core.waits.messages import OfferReply, Reply
from core.waits.strategy import Status

SHARDS = (1, 2, 4)
WARM = 200  # correlations that `warm` completes


async def run(stage: Stage) -> Result:
    """The rate at each size against that at the smallest, and on more shards against one."""
    sizes = (10_000, 50_000) if stage.quick else (10_000, 100_000, 1_000_000)
    load = 4_000 if stage.quick else 20_000
    rounds = 1 if stage.quick else 5
    result = Result("scale")
    await _open_correlations(stage, sizes, load, rounds, result)
    await _shards(stage, load, rounds, result)
    await _shared_id(stage, 50_000 if stage.quick else 1_000_000, load, rounds, result)
    return result


async def _open_correlations(
    stage: Stage, sizes: tuple[int, ...], load: int, rounds: int, result: Result
) -> None:
    templates = {size: await _template(stage, size) for size in sizes}
    try:
        arms = {
            f"{size:,} open": partial(measure, stage, load, template=templates[size], size=size)
            for size in sizes
        }
        found = await interleave(arms, rounds)
    finally:
        for dsn in templates.values():
            await stage.drop(dsn)
    first = f"{sizes[0]:,} open"
    for name, seen in found.items():
        result.ours[name] = _figures(seen)
        if name != first:
            result.ratios[f"{name} / {first}"] = ratios_of(seen, found[first])
            result.goals[f"{name} / {first}"] = "≥ 0.8"


async def _shards(stage: Stage, load: int, rounds: int, result: Result) -> None:
    template = await stage.database()
    try:
        arms = {
            _shards_name(count): partial(measure, stage, load, template=template, shards=count)
            for count in SHARDS
        }
        found = await interleave(arms, rounds)
    finally:
        await stage.drop(template)
    for name, seen in found.items():
        result.ours[name] = _figures(seen)
        if name != _shards_name(1):
            result.ratios[f"{name} / {_shards_name(1)}"] = ratios_of(seen, found[_shards_name(1)])


async def _shared_id(stage: Stage, ended: int, load: int, rounds: int, result: Result) -> None:
    """One correlation id for all, which so many waits had that have ended."""
    err.print(f"  filling {ended:,} ended correlations of one id")
    template = await stage.database()
    await fill(template, ended, ENDED)
    shared, unique = f"one id, {ended:,} ended", f"unique ids, {ended:,} ended"
    try:
        arms = {
            name: partial(_measure_chosen, stage, load, template=template, ended=ended, shared=id_)
            for name, id_ in ((unique, None), (shared, SHARED))
        }
        found = await interleave(arms, rounds)
    finally:
        await stage.drop(template)
    for name, seen in found.items():
        result.ours[name] = _figures(seen)
    result.ratios[f"{shared} / unique ids"] = ratios_of(found[shared], found[unique])
    result.goals[f"{shared} / unique ids"] = "≥ 0.8"


def _figures(seen: list[Measure]) -> dict[str, dict[str, float]]:
    return {
        "events_per_second": spread([measure.rate for measure in seen]),
        "cpu_us_per_event": spread([measure.cpu_microseconds for measure in seen]),
    }


def _shards_name(count: int) -> str:
    return f"{count} shard" if count == 1 else f"{count} shards"


async def _template(stage: Stage, size: int) -> str:
    """The part of the open correlations that has no place in memory, as rows."""
    err.print(f"  filling {size - _hot(size):,} open correlations")
    dsn = await stage.database()
    await fill(dsn, size - _hot(size))
    return dsn


def _hot(size: int) -> int:
    """Half of them in memory, as far as the default settings of one shard allow."""
    return min(size // 2, Config(dsn="").hot_limit)


async def measure(
    stage: Stage, correlations: int, *, template: str, size: int = 0, shards: int = 1
) -> Measure:
    """The `aggregate` arm among `size` open correlations."""
    counts = {"completed": correlations + WARM} | ({"waiting": size} if size else {})
    run_ = _Run(make_load(correlations), counts, hot=_hot(size), shards=shards)
    return await _measure(stage, template, run_)


async def _measure_chosen(
    stage: Stage, correlations: int, *, template: str, ended: int, shared: str | None
) -> Measure:
    """The same with ids that the caller chose, each event before its registration."""
    # The row that was copied still waits.
    counts = {"completed": correlations + WARM + ended - 1, "waiting": 1}
    return await _measure(stage, template, _Run(make_chosen_load(correlations, shared), counts))


@dataclass(frozen=True, slots=True)
class _Run:
    """What is sent, and how many waits there are of each status when it is done."""

    load: Load
    counts: dict[str, int]
    hot: int = 0
    shards: int = 1


async def _measure(stage: Stage, template: str, run_: _Run) -> Measure:
    dsn = await stage.copy_of(template)
    load = run_.load
    try:
        async with actors(dsn, shards=run_.shards) as gateway:
            await register(gateway, run_.hot)
            await warm(gateway)
            await stage.checkpoint()
            cpu, started = stage.cpu_seconds(), time.perf_counter()
            replies = await send_all(gateway, load)
            seconds, cpu = time.perf_counter() - started, stage.cpu_seconds() - cpu
        await _check(dsn, replies, run_)
    finally:
        await stage.drop(dsn)
    return Measure(load.messages, seconds, cpu)


async def _check(dsn: str, replies: list[Reply], run_: _Run) -> None:
    """All have completed, and those that were open before still are."""
    done = sum(isinstance(r, OfferReply) and r.status is Status.COMPLETED for r in replies)
    assert done == len(run_.load.events), (done, len(run_.load.events))
    conn = await asyncpg.connect(dsn)
    try:
        rows = await conn.fetch("select status, count(*) from execution_wait_states group by 1")
    finally:
        await conn.close()
    counted = {row["status"]: row["count"] for row in rows}
    assert counted == run_.counts, counted
