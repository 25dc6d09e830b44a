"""Three resources asked at once, and everybody's answer in one reply, by 32 callers at a time."""

from dataclasses import dataclass, field

import orjson
import psutil

from bench.front import front_door
from bench.harness import Measure, Result, interleave, ratios_of, spread
from bench.http_load import Plan, Report
from bench.peers.fanout import fanout_service
from bench.peers.resource import resource_service
from bench.stage import Stage, cpu_of
from bench.stats import percentile
from bench.tables import connected
from bench.wire import Door, answered, told

LANES = 32
NAMES = ("archive", "laboratory", "pharmacy")
ASKED = {"resources": NAMES, "mode": "wait", "context": {"patientId": "19121212-1212"}}
ANSWERED = b'"state":"ok"'
GOALS = {"fan-outs / by hand": "≥ 0.5"}


async def run(stage: Stage) -> Result:
    """Ours, durable, against asyncio and httpx by hand, which keeps nothing."""
    size = 1_000 if stage.quick else 5_000
    async with (
        resource_service() as (url, resource),
        front_door(stage) as door,
        fanout_service(url) as (peer_door, peer),
    ):
        await _register(door, url)
        ours = Side(stage, door, [resource])
        by_hand = Side(stage, peer_door, [resource, peer])
        for side in (ours, by_hand):
            await side.ask(size // 5)
        await _check(door, size // 5)
        for side in (ours, by_hand):
            side.reports.clear()
        found = await interleave(
            {"ours": lambda: _ask_ours(ours, size), "by hand": lambda: by_hand.ask(size)},
            rounds=1 if stage.quick else 5,
        )
    return _result(found, ours, by_hand)


@dataclass
class Side:
    """A service that fans out, and the processes that only its calls keep busy."""

    stage: Stage
    door: Door
    processes: list[psutil.Process]
    reports: list[Report] = field(default_factory=list)

    async def ask(self, count: int) -> Measure:
        """So many fan-outs; every answer has everybody's."""
        await self.stage.checkpoint()
        request = self.door.post("/api/gathers", orjson.dumps(ASKED))
        plan = Plan(
            port=self.door.port, requests=[request] * count, connections=LANES, expect=ANSWERED
        )
        cpu = self._cpu()
        report = await answered(plan, len(NAMES) * count)
        self.reports.append(report)
        return Measure(count, report.seconds, self._cpu() - cpu + report.cpu_seconds)

    def figures(self, found: list[Measure]) -> dict[str, object]:
        """What is told of it beside the ratio."""
        return {
            "per_second": spread([seen.rate for seen in found]),
            "cpu_us": spread([seen.cpu_microseconds for seen in found]),
            "p50_ms": spread([percentile(r.latencies, 0.5) * 1e3 for r in self.reports]),
            "p99_ms": spread([percentile(r.latencies, 0.99) * 1e3 for r in self.reports]),
        }

    def _cpu(self) -> float:
        return self.stage.system_cpu_seconds() + sum(map(cpu_of, self.processes))


async def _register(door: Door, url: str) -> None:
    document = orjson.dumps({"url": url, "reply": "direct"})
    for name in NAMES:
        await told(door.port, door.request("PUT", f"/api/resources/{name}", document))


async def _ask_ours(ours: Side, count: int) -> Measure:
    async with connected(ours.door.dsn) as conn:
        await conn.execute("truncate execution_wait_states, wait_state_events")
    measure = await ours.ask(count)
    await _check(ours.door, count)
    return measure


async def _check(door: Door, count: int) -> None:
    """Every fan-out is in the tables, completed, with each answer once."""
    async with connected(door.dsn) as conn:
        found = await conn.fetchrow(
            "select count(*) filter (where status = 'completed') as completed,"
            " (select count(*) from wait_state_events where kind = 'received') as received"
            " from execution_wait_states"
        )
    assert found is not None
    assert tuple(found) == (count, len(NAMES) * count), (tuple(found), count)


def _result(found: dict[str, list[Measure]], ours: Side, by_hand: Side) -> Result:
    result = Result("gather", goals=GOALS)
    result.ours = {**ours.figures(found["ours"]), "callers": LANES}
    result.peers["by hand"] = by_hand.figures(found["by hand"])
    result.ratios["fan-outs / by hand"] = ratios_of(found["ours"], found["by hand"])
    return result
