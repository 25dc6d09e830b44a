"""Callbacks over HTTP through the front door, each matched to its own wait and committed."""

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from bench.front import front_door
from bench.harness import Measure, Result, err, interleave, ratios_of, spread
from bench.http_load import Plan, Report
from bench.peers import echo, plain
from bench.peers.hosted import hosted
from bench.stage import Stage, cpu_of
from bench.stats import percentile, poisson_schedule
from bench.tables import connected
from bench.wire import Door, Ids, answered, listening, new_ids
from host.ports import free_port
from host.processes import find_processes_in

CONNECTIONS = 64
BATCH = 500
BATCH_CONNECTIONS = 8
MATCHED = b'"verdict":"matched"'
GOALS = {
    "callbacks / echo": "≥ 0.6",
    "callbacks / plain": "≥ 1",
    "batch events / echo": "≥ 10",
    "ack p99 / pgbench p99": "≤ 5",
}


async def run(stage: Stage) -> Result:
    """Ours against Serve itself and a plain service; then how long an acknowledgement takes."""
    result = Result("callbacks", goals=GOALS)
    size = 3_000 if stage.quick else 15_000
    workers = await _best_workers(stage, size // 3)
    async with front_door(stage) as door:
        async with (
            hosted(stage, echo.Echo) as (echo_door, places),
            plain.plain_service(stage, workers) as (plain_door, process),
        ):

            def peers() -> list[psutil.Process]:
                return [
                    *find_processes_in(places.run_dir),
                    process,
                    *process.children(recursive=True),
                ]

            scene = Scene(stage, door, echo_door, plain_door, peers)
            await _throughput(scene, result, size, workers)
        # Here nothing but pgbench is compared: the others must not take part, not even by idling.
        rate = result.ours["callbacks_per_second"]["median"] / 2
        await _latencies(scene, result, rate)
    result.peers["generator"] = {
        "ceiling_rps": round(await _ceiling(size)),
        "cpu_share": scene.generator_share(),
    }
    return result


async def _throughput(scene: "Scene", result: Result, size: int, workers: int) -> None:
    """As fast as each can."""
    for arm in (scene.callbacks, scene.echo, scene.plain, scene.batches):
        await arm(size // 10)
    found = await interleave(
        {
            "callbacks": lambda: scene.callbacks(size),
            "echo": lambda: scene.echo(size),
            "plain": lambda: scene.plain(size),
            "batch": lambda: scene.batches(5 * size),
        },
        rounds=1 if scene.stage.quick else 5,
    )
    _fill_in(result, scene, found, workers)


@dataclass
class Scene:
    """All services at once; one is busy at a time. The peers' processes are not the stage's."""

    stage: Stage
    door: Door
    echo_door: Door
    plain_door: Door
    peers: Callable[[], list[psutil.Process]]
    generator_cpu: float = 0.0
    all_cpu: float = 0.0

    async def callbacks(self, count: int) -> Measure:
        """Ours, one event for each request."""
        ids = await self._registered(count)
        requests = self.door.callbacks(ids)
        measure = await self._measure(self._plan(self.door, requests, MATCHED), count)
        await self.check(count)
        return measure

    async def batches(self, count: int) -> Measure:
        """Ours, many events for each request."""
        ids = await self._registered(count)
        plan = self._plan(self.door, self.door.callback_batches(ids, BATCH), MATCHED)
        plan.connections = BATCH_CONNECTIONS
        measure = await self._measure(plan, count)
        await self.check(count)
        return measure

    async def echo(self, count: int) -> Measure:
        """Serve alone, sent the same bytes."""
        await self.stage.checkpoint()
        requests = self.echo_door.callbacks(new_ids(count), echo.PATH)
        return await self._measure(self._plan(self.echo_door, requests, echo.EXPECTED), count)

    async def plain(self, count: int) -> Measure:
        """The row-lock design, sent the same bytes."""
        ids = new_ids(count)
        async with connected(self.plain_door.dsn) as conn:
            await conn.execute("truncate wait_states, wait_log")
            await conn.execute(plain.FILL, [e for e, _ in ids], [c for _, c in ids])
            await self.stage.checkpoint()
            requests = self.plain_door.callbacks(ids)
            measure = await self._measure(self._plan(self.plain_door, requests, MATCHED), count)
            done = await conn.fetchval(
                "select count(*) from wait_states join wait_log on wait_id = id"
                " where status = 'completed'"
            )
        assert done == count, (done, count)
        return measure

    async def scheduled(self, rate: float, seconds: float) -> Report:
        """Ours at a rate that does not wait for answers."""
        count = int(rate * seconds)
        ids = await self._registered(count)
        plan = self._plan(self.door, self.door.callbacks(ids), MATCHED)
        plan.schedule = poisson_schedule(rate, count, seed=count)
        report = await answered(plan, count)
        await self.check(count)
        return report

    async def check(self, count: int) -> None:
        """Every acknowledged callback is in the tables, once, and has completed its wait."""
        async with connected(self.door.dsn) as conn:
            done = await conn.fetchval(
                "select count(*) from execution_wait_states join wait_state_events using (wait_key)"
                " where status = 'completed' and kind = 'received'"
            )
        assert done == count, (done, count)

    def generator_share(self) -> float:
        """Which part of all CPU the load took itself."""
        return round(self.generator_cpu / self.all_cpu, 3)

    async def _registered(self, count: int) -> list[Ids]:
        async with connected(self.door.dsn) as conn:
            await conn.execute("truncate execution_wait_states, wait_state_events")
        ids = new_ids(count)
        await self.door.register(ids)
        await self.stage.checkpoint()
        return ids

    def _plan(self, door: Door, requests: list[bytes], expect: bytes) -> Plan:
        return Plan(port=door.port, requests=requests, connections=CONNECTIONS, expect=expect)

    async def _measure(self, plan: Plan, count: int) -> Measure:
        before = self._cpu()
        report = await answered(plan, count)
        cpu = self._cpu() - before + report.cpu_seconds
        self.generator_cpu += report.cpu_seconds
        self.all_cpu += cpu
        return Measure(count, report.seconds, cpu)

    def _cpu(self) -> float:
        return self.stage.system_cpu_seconds() + sum(map(cpu_of, self.peers()))


async def _best_workers(stage: Stage, count: int) -> int:
    """How many processes the plain service is best with on this machine."""
    rates: dict[int, float] = {}
    for workers in sorted({1, os.cpu_count() or 1}):
        async with plain.plain_service(stage, workers) as (door, _):
            scene = Scene(stage, door, door, door, list)
            await scene.plain(count // 5)
            rates[workers] = (await scene.plain(count)).rate
    best = max(rates, key=lambda workers: rates[workers])
    err.print(f"  plain: {', '.join(f'{n} workers {r:,.0f}/s' for n, r in rates.items())}")
    return best


def _fill_in(result: Result, scene: Scene, found: dict[str, list[Measure]], workers: int) -> None:
    rates = {name: spread([seen.rate for seen in arm]) for name, arm in found.items()}
    cpu = {name: spread([seen.cpu_microseconds for seen in arm]) for name, arm in found.items()}
    result.ours = {
        "callbacks_per_second": rates["callbacks"],
        "cpu_us_per_callback": cpu["callbacks"],
        "batch_events_per_second": rates["batch"],
        "cpu_us_per_batch_event": cpu["batch"],
        "connections": CONNECTIONS,
        "behind_haproxy": scene.stage.node.behind_haproxy,
    }
    result.peers["echo"] = {"rps": rates["echo"], "cpu_us": cpu["echo"]}
    result.peers["plain"] = {"rps": rates["plain"], "cpu_us": cpu["plain"], "workers": workers}
    result.ratios["callbacks / echo"] = ratios_of(found["callbacks"], found["echo"])
    result.ratios["callbacks / plain"] = ratios_of(found["callbacks"], found["plain"])
    result.ratios["batch events / echo"] = ratios_of(found["batch"], found["echo"])


async def _latencies(scene: Scene, result: Result, rate: float) -> None:
    """At half of our peak: from the moment a callback is due until it is acknowledged."""
    stage = scene.stage
    seconds = 5 if stage.quick else 30
    dsn = await stage.empty_database()
    stage.pgbench(dsn, "-i", "-q", "-s", "20")
    ours: list[Report] = []
    theirs: list[list[float]] = []
    clients = ("-N", "-c", "16", "-j", "2", "-T", str(seconds), f"--rate={rate:.0f}")
    for number in range(1 if stage.quick else 3):
        turns = [True, False] if number % 2 == 0 else [False, True]
        for mine in turns:
            if mine:
                ours.append(await scene.scheduled(rate, seconds))
            else:
                await stage.checkpoint()
                theirs.append(await asyncio.to_thread(stage.pgbench_latencies, dsn, *clients))
        err.print(f"  ack p99 {_ms(ours[-1].latencies):.1f} ms, pgbench {_ms(theirs[-1]):.1f} ms")
    await stage.drop(dsn)
    result.ours["ack"] = {
        "rate": round(rate),
        "p50_ms": spread([_ms(report.latencies, 0.5) for report in ours]),
        "p99_ms": spread([_ms(report.latencies) for report in ours]),
        "sent_late_p99_ms": spread([_ms(report.lags) for report in ours]),
    }
    result.peers["pgbench"] = {
        "rate": round(rate),
        "p50_ms": spread([_ms(latencies, 0.5) for latencies in theirs]),
        "p99_ms": spread([_ms(latencies) for latencies in theirs]),
    }
    result.ratios["ack p99 / pgbench p99"] = spread(
        [_ms(r.latencies) / _ms(latencies) for r, latencies in zip(ours, theirs, strict=True)]
    )


def _ms(latencies: list[float], share: float = 0.99) -> float:
    return percentile(latencies, share) * 1e3


async def _ceiling(count: int) -> float:
    """What the generator reaches when answers cost nothing."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.peers.sink", str(port)
    )
    try:
        await listening(port)
        requests = Door(port, "none", "").callbacks(new_ids(3 * count))
        plan = Plan(port=port, requests=requests, connections=CONNECTIONS, expect=b'"ok":true')
        return (await answered(plan, 3 * count)).rate
    finally:
        process.kill()
        await process.wait()
