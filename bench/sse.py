"""Many readers of one gather: how long until the last one has an answer, and what each costs."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil

from bench.audience import Plan, Report, attend
from bench.front import front_door
from bench.harness import Result, err, spread
from bench.peers.hosted import hosted
from bench.peers.queues import Queues
from bench.peers.resource import NOTE, resource_service
from bench.stage import Stage
from bench.stats import percentile
from bench.wire import Door, told
from host.processes import find_processes_in, process_name

PUBLISHES = 50
# What a gather lasts at most, and how much of that is for publishing.
LONGEST_MS, WITHIN = 27_000, 24.0
REPLICA = "ray::ServeRepl"  # names are cut
NOTES = [{"id": number, **NOTE} for number in range(3)]


async def run(stage: Stage) -> Result:
    """Ours against a queue for each reader, on the same server."""
    sizes, rounds = ((200, 500), 1) if stage.quick else ((1_000, 5_000), 5)
    result = Result("sse", peers={"queues": {}})
    async with (
        resource_service() as (url, _),
        # Those who leave are still counted for a moment when the next ones come.
        front_door(stage, stream_limit=2 * sizes[-1]) as door,
        hosted(stage, Queues) as (peer_door, places),
    ):
        ours = Ours(door, stage.places.run_dir, stage.system, url)
        queues = Peer(peer_door, places.run_dir, lambda: find_processes_in(places.run_dir))
        for side in (ours, queues):
            await side.show(20, PUBLISHES)
            side.weigh()
        for size in sizes:
            _note(result, size, *await _in_turns(ours, queues, size, rounds))
    return result


@dataclass(frozen=True, slots=True)
class Shown:
    """What one round of one side came to."""

    latencies: list[float]
    kb_each: float
    cpu_us_per_frame: float
    readers_cpu_share: float
    opened_per_second: float
    frame_bytes: float

    @classmethod
    def of(cls, reports: list[Report], readers: int, empty: int) -> "Shown":
        """A round may take several audiences."""
        latencies = [latency for report in reports for latency in report.latencies]
        cpu = sum(report.cpu_seconds for report in reports)
        own = sum(report.own_cpu_seconds for report in reports)
        return cls(
            latencies=latencies,
            kb_each=(reports[0].memory - empty) / readers / 1024,
            cpu_us_per_frame=cpu / len(latencies) / readers * 1e6,
            readers_cpu_share=own / cpu,
            opened_per_second=readers / reports[0].opened,
            frame_bytes=reports[0].frame,
        )

    def ms(self, share: float) -> float:
        """So many of its publishes had reached everybody by then."""
        return percentile(self.latencies, share) * 1e3


class Side:
    """A service with streams, and what its serving process weighs without readers."""

    def __init__(
        self, door: Door, run_dir: Path, processes: Callable[[], list[psutil.Process]]
    ) -> None:
        self.door = door
        self._processes = processes
        self._serving = next(
            p for p in find_processes_in(run_dir) if process_name(p).startswith(REPLICA)
        )
        self._empty = 0

    def weigh(self) -> None:
        """Once, when all that is made for the first readers is there."""
        self._empty = self._serving.memory_full_info().uss

    async def show(self, readers: int, publishes: int) -> Shown:
        """Let so many come, and publish; with new readers when their time is over."""
        reports: list[Report] = []
        while (left := publishes - sum(len(report.latencies) for report in reports)) > 0:
            reports.append(await self.show_once(readers, left))
            assert reports[-1].latencies, f"{readers} streams were not open in time"
        return Shown.of(reports, readers, self._empty)

    async def show_once(self, readers: int, publishes: int) -> Report:
        """One audience."""
        raise NotImplementedError

    async def attend(
        self, readers: int, read: bytes, publishes: list[bytes], expect: bytes
    ) -> Report:
        """Let them come, publish, and let them go."""
        plan = Plan(
            port=self.door.port,
            readers=readers,
            read=read,
            publishes=publishes,
            expect=expect,
            within=WITHIN,
            serving=self._serving.pid,
            busy=[process.pid for process in self._processes()],
        )
        return await attend(plan)

    async def until(self, path: str, met: Callable[[Any], bool]) -> None:
        """Ask until the answer is the right one."""
        deadline = time.monotonic() + 30
        while not met(found := await told(self.door.port, self.door.request("GET", path))):
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.1)


class Ours(Side):
    """A gather of resources that are called back for here; each callback is a publish."""

    def __init__(
        self,
        door: Door,
        run_dir: Path,
        processes: Callable[[], list[psutil.Process]],
        url: str,
    ) -> None:
        super().__init__(door, run_dir, processes)
        self._url = url

    async def show_once(self, readers: int, publishes: int) -> Report:
        """One gather. It is cancelled when its last reader has left: so all have."""
        # The one who is never called back for keeps it open.
        names = [source(number) for number in range(publishes + 1)]
        begun = await told(self.door.port, self.door.post("/api/gathers", self._asked(names)))
        gather, path = begun["id"], f"/api/gathers/{begun['id']}"
        report = await self.attend(
            readers,
            self.door.request("GET", f"{path}/stream"),
            [
                self.door.post(
                    f"/api/internal/callbacks/{name}", orjson.dumps(note(number)), (gather, gather)
                )
                for number, name in enumerate(names[:-1])
            ],
            b'"verdict":"matched"',
        )
        await self.until(path, lambda seen: seen["status"] == "cancelled")
        return report

    def _asked(self, names: list[str]) -> bytes:
        resources = [{"name": name, "url": self._url, "reply": "callback"} for name in names]
        return orjson.dumps({"resources": resources, "timeoutMs": LONGEST_MS, "graceMs": 0})


class Peer(Side):
    """What is published is what ours makes of a callback: as many bytes for each reader."""

    async def show_once(self, readers: int, publishes: int) -> Report:
        """New readers each time, as ours."""
        documents = [
            {
                "source": source(number),
                "correlationId": "00000000-0000-4000-8000-000000000000",
                "status": "ok",
                "at": "2026-03-14T09:26:53.589793Z",
                "data": note(number),
            }
            for number in range(publishes)
        ]
        report = await self.attend(
            readers,
            self.door.request("GET", "/stream"),
            [self.door.post("/publish", orjson.dumps(document)) for document in documents],
            b'"readers":%d}' % readers,
        )
        await self.until("/", lambda seen: seen["readers"] == 0)
        return report


def source(number: int) -> str:
    """The resource whose answer is published with this number."""
    return f"resource-{number}"


def note(number: int) -> dict[str, Any]:
    """What is published; readers look for its number."""
    return {"number": number, "notes": NOTES}


async def _in_turns(
    ours: Side, peer: Side, size: int, rounds: int
) -> tuple[list[Shown], list[Shown]]:
    found: dict[Side, list[Shown]] = {ours: [], peer: []}
    for number in range(rounds):
        for side in [ours, peer] if number % 2 == 0 else [peer, ours]:
            found[side].append(await side.show(size, PUBLISHES))
        mine, other = found[ours][-1], found[peer][-1]
        assert abs(mine.frame_bytes / other.frame_bytes - 1) < 0.05, (mine, other)
        err.print(
            f"  {size:,} readers, round {number + 1}/{rounds}: p99 {mine.ms(0.99):,.0f} : "
            f"{other.ms(0.99):,.0f} ms, {mine.kb_each:.1f} : {other.kb_each:.1f} KB each"
        )
    return found[ours], found[peer]


def _note(result: Result, size: int, ours: list[Shown], peer: list[Shown]) -> None:
    result.ours[f"{size:,} readers"] = _figures(ours)
    result.peers["queues"][f"{size:,} readers"] = _figures(peer)
    pairs = list(zip(ours, peer, strict=True))
    for name, ratios in {
        f"p99 / queues at {size:,}": [mine.ms(0.99) / other.ms(0.99) for mine, other in pairs],
        f"memory / queues at {size:,}": [mine.kb_each / other.kb_each for mine, other in pairs],
    }.items():
        result.ratios[name] = spread(ratios)
        result.goals[name] = "≤ 1.5"


def _figures(shown: list[Shown]) -> dict[str, object]:
    return {
        "p50_ms": spread([seen.ms(0.5) for seen in shown]),
        "p99_ms": spread([seen.ms(0.99) for seen in shown]),
        "kb_each": spread([seen.kb_each for seen in shown]),
        "cpu_us_per_frame": spread([seen.cpu_us_per_frame for seen in shown]),
        "readers_cpu_share": spread([seen.readers_cpu_share for seen in shown]),
        "opened_per_second": spread([seen.opened_per_second for seen in shown]),
        "frame_bytes": spread([seen.frame_bytes for seen in shown]),
    }
