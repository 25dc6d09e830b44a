"""A quiet tenant beside one that takes all it can get, against the same quiet tenant alone.

Sender, product and Postgres share the cores of one machine: the quiet tenant waits for those, too.
How long is shown by the same load beside processes that share nothing else with it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.front import front_door
from bench.harness import Measure, Result, interleave, spread
from bench.http_load import Plan
from bench.stage import Stage
from bench.stats import percentile, poisson_schedule
from bench.tables import connected
from bench.wire import Door, Ids, answered, new_ids
from tools.chaos.faults.neighbour import create_noisy_tenant
from tools.chaos.faults.noisy_tenant import Noise, NoiseKind, NoiseResult, noisy_tenant

RATE = 50.0
"""Callbacks a second of the quiet tenant: far from all that there is."""
CONNECTIONS = 8
MATCHED = b'"verdict":"matched"'
GOALS = {f"{kind}: p99 beside / alone": "≤ 3" for kind in NoiseKind}
BUSY = "busy cores"


async def run(stage: Stage) -> Result:
    """One shared thing after another, alone and beside the noise in turns."""
    result = Result("neighbour", goals=GOALS)
    seconds, rounds = (3.0, 1) if stage.quick else (15.0, 5)
    async with front_door(stage) as door:
        scene = Scene(stage, door, await create_noisy_tenant(door.dsn))
        await scene.alone(seconds / 3)
        for kind in NoiseKind:
            await _compare(scene, result, kind, seconds, rounds)
        await _show_floor(scene, result, seconds, rounds)
    result.ours |= {"callbacks_per_second": RATE, "connections": CONNECTIONS}
    return result


@dataclass(frozen=True, slots=True)
class Timed(Measure):
    """A run of the quiet tenant, with how long it took to be answered."""

    latencies: list[float] = field(default_factory=list)
    heard: NoiseResult | None = None

    def milliseconds(self, share: float = 0.99) -> float:
        """The latency that this share of the callbacks did not exceed."""
        return percentile(self.latencies, share) * 1e3


@dataclass(slots=True)
class Scene:
    """The product, a quiet tenant and the key of a noisy one."""

    stage: Stage
    door: Door
    noisy_key: str

    async def alone(self, seconds: float) -> Timed:
        """The quiet tenant by itself."""
        return await self._call_back(await self._registered(seconds), seconds)

    async def beside(self, kind: NoiseKind, seconds: float) -> Timed:
        """The same, while the other tenant takes all it can get of one thing."""
        ids = await self._registered(seconds)
        noise = Noise(url=f"http://127.0.0.1:{self.door.port}", key=self.noisy_key, kind=kind)
        async with noisy_tenant(noise) as heard:
            timed = await self._call_back(ids, seconds)
        return Timed(timed.amount, timed.seconds, latencies=timed.latencies, heard=heard[0])

    async def beside_busy_cores(self, seconds: float) -> Timed:
        """The same, while as many foreign processes compute as there are cores."""
        ids = await self._registered(seconds)
        with _busy_processes(os.cpu_count() or 1):
            return await self._call_back(ids, seconds)

    async def _registered(self, seconds: float) -> list[Ids]:
        async with connected(self.door.dsn) as conn:
            await conn.execute("truncate execution_wait_states, wait_state_events, event_inbox")
        ids = new_ids(int(RATE * seconds))
        await self.door.register(ids)
        await self.stage.checkpoint()
        return ids

    async def _call_back(self, ids: list[Ids], seconds: float) -> Timed:
        """On a schedule that waits for nobody; every callback is matched and in the tables."""
        plan = Plan(
            port=self.door.port,
            requests=self.door.callbacks(ids),
            connections=CONNECTIONS,
            expect=MATCHED,
            schedule=poisson_schedule(RATE, len(ids), seed=len(ids)),
        )
        report = await answered(plan, len(ids))
        async with connected(self.door.dsn) as conn:
            done = await conn.fetchval(
                "select count(*) from execution_wait_states"
                " where status = 'completed' and execution_id = any($1)",
                [execution for execution, _ in ids],
            )
        assert done == len(ids), (done, len(ids))
        return Timed(len(ids), report.seconds, latencies=report.latencies)


async def _compare(
    scene: Scene, result: Result, kind: NoiseKind, seconds: float, rounds: int
) -> None:
    found = await interleave(
        {"alone": lambda: scene.alone(seconds), kind: lambda: scene.beside(kind, seconds)},
        rounds,
    )
    alone = [run for run in found["alone"] if isinstance(run, Timed)]
    beside = [run for run in found[kind] if isinstance(run, Timed)]
    result.ratios[f"{kind}: p99 beside / alone"] = _slower(beside, alone)
    accepted = [run.heard.accepted / run.seconds for run in beside if run.heard is not None]
    refused = [_refused(run.heard) / run.seconds for run in beside if run.heard is not None]
    result.ours[str(kind)] = {
        **_latencies(beside),
        "noise_accepted_per_second": spread(accepted),
        "noise_refused_per_second": spread(refused),
    }
    result.peers[f"alone, before {kind}"] = _latencies(alone)


async def _show_floor(scene: Scene, result: Result, seconds: float, rounds: int) -> None:
    found = await interleave(
        {"alone": lambda: scene.alone(seconds), BUSY: lambda: scene.beside_busy_cores(seconds)},
        rounds,
    )
    alone = [run for run in found["alone"] if isinstance(run, Timed)]
    busy = [run for run in found[BUSY] if isinstance(run, Timed)]
    result.ratios[f"{BUSY}: p99 beside / alone"] = _slower(busy, alone)
    result.peers[BUSY] = _latencies(busy)


def _slower(beside: list[Timed], alone: list[Timed]) -> dict[str, float]:
    """How many times its p99, round by round."""
    pairs = zip(beside, alone, strict=True)
    return spread([there.milliseconds() / here.milliseconds() for there, here in pairs])


def _latencies(runs: list[Timed]) -> dict[str, dict[str, float]]:
    return {
        "p50_ms": spread([run.milliseconds(0.5) for run in runs]),
        "p99_ms": spread([run.milliseconds() for run in runs]),
    }


@contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _refused(heard: NoiseResult) -> int:
    return sum(heard.answers.values()) - heard.accepted
