"""What is done to a cluster under load, and what came of it."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import ray

from tests.chaos.cluster_load import acknowledged, serves_again, under_load
from tests.chaos.cluster_nodes import Node
from tests.chaos.cluster_stage import WARM, Stage
from tools.chaos.exercise import Drill
from tools.chaos.reconcile import Violation

Told = dict[str, Any]


async def kill_node(stage: Stage) -> Told:
    """kill -9 of a raylet and all its workers."""
    async with under_load(stage.client, stage.plan()) as (drill, _):
        await acknowledged(drill, WARM)
        victim, lost = await stage.victim()
        struck = time.monotonic()
        victim.kill()
        stage.nodes.forget(victim)
        served = await served_again(stage, lost, struck)
        await acknowledged(drill, WARM)
        back = await back_elsewhere(stage, victim, lost)
    stage.nodes.add()
    return {**account(drill), "hit": sorted(lost), "served_again": served, "back": back}


async def crowded_machine(stage: Stage, seconds: float, burners: int) -> Told:
    """Let other programs want all of the CPU: no node may be taken for dead."""
    async with under_load(stage.client, stage.plan()) as (drill, _):
        await acknowledged(drill, WARM)
        pids = await stage.pids(stage.shards)
        with _burning(burners):
            await asyncio.sleep(seconds)
        await acknowledged(drill, WARM)
        kept = await stage.pids(stage.shards) == pids
    dead = sum(not node["Alive"] for node in ray.nodes())
    return {**account(drill), "dead_nodes": dead, "same_shards": kept}


@contextmanager
def _burning(count: int) -> Iterator[None]:
    program = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(program) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


async def served_again(stage: Stage, lost: Iterable[str], since: float) -> float:
    """Seconds until each lost shard has taken a new correlation."""
    shards = [name for name in stage.shards if name in lost]
    took = await asyncio.gather(*(serves_again(stage.client, name, since) for name in shards))
    return round(max(took), 2)


async def back_elsewhere(stage: Stage, victim: Node, lost: dict[str, int]) -> bool:
    """Whether every actor of the lost node runs on a living one."""
    pids = await stage.pids(list(lost))
    homes = {name: stage.nodes.node_of(pid) for name, pid in pids.items()}
    return all(home is not None and home is not victim for home in homes.values())


def account(drill: Drill) -> Told:
    result = drill.result
    account = result.account
    return {
        "acknowledged": account.acknowledged,
        "floor": account.floor,
        "completed": account.completed,
        **{flaw.value: account.count(flaw) for flaw in Violation},
        "findings": [str(finding) for finding in account.findings[:10]],
        "given_up": result.given_up,
        "turned_away": dict(result.stats.refused),
        "unexpected": dict(result.stats.unexpected),
        "drained_after": round(result.drained_after, 2),
    }
