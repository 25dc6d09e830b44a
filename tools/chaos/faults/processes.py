"""The processes of one local instance: which may be killed, and how much memory they take."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

from host.processes import PROCESS_GONE, find_processes_in
from tools.chaos.fault import FaultRun
from tools.load.tasks import background

_EVERY = 0.25
MEGABYTE = 1024 * 1024


class VictimKind(StrEnum):
    """What a process does."""

    SHARD = "shard"
    TIMER = "timer"
    MAINTENANCE = "maintenance"
    SUPERVISOR = "supervisor"
    POOL = "pool"
    DISPATCH = "dispatch"
    KAFKA_INGEST = "kafka-ingest"
    RELAY = "relay"
    INGRESS = "ingress"
    CONTROLLER = "controller"
    PROXY = "proxy"
    HAPROXY = "haproxy"


# By the beginning of the process's title. Ray's own control processes are not among them: on one
# machine they are the node itself, and the host ends with them by design.
_TITLES = {
    "ray::ShardActor": VictimKind.SHARD,
    "ray::TimerActor": VictimKind.TIMER,
    "ray::MaintenanceActor": VictimKind.MAINTENANCE,
    "ray::SupervisorActor": VictimKind.SUPERVISOR,
    "ray::PoolActor": VictimKind.POOL,
    "ray::DispatchActor": VictimKind.DISPATCH,
    "ray::KafkaIngestActor": VictimKind.KAFKA_INGEST,
    "ray::RelayActor": VictimKind.RELAY,
    "ray::ServeReplica": VictimKind.INGRESS,
    "ray::ServeController": VictimKind.CONTROLLER,
    "ray::ProxyActor": VictimKind.PROXY,
    "ray::HAProxyManager": VictimKind.PROXY,
    "haproxy": VictimKind.HAPROXY,
}


@dataclass(frozen=True, slots=True)
class Victim:
    """A process that may be killed; psutil refuses if its number is another process's by now."""

    kind: VictimKind
    process: psutil.Process

    def __str__(self) -> str:
        return f"{self.kind} (pid {self.process.pid})"


def victim_kind(title: str) -> VictimKind | None:
    """Classify a process by its title; None means that no fault may kill it."""
    return next((kind for begin, kind in _TITLES.items() if title.startswith(begin)), None)


def find_victims(run_dir: Path, kinds: frozenset[VictimKind]) -> list[Victim]:
    """Find the processes of these kinds that run now in this instance, and in no other."""
    found: list[Victim] = []
    for process in find_processes_in(run_dir):
        try:
            kind = victim_kind(process.name())
        except PROCESS_GONE:
            continue
        if kind in kinds:
            found.append(Victim(kind, process))
    return found


@dataclass(slots=True)
class MemoryUsage:
    """Resident bytes by process: at first, and at most."""

    first: dict[int, int] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def add_sample(self, pid: int, name: str, size: int) -> None:
        self.names[pid] = name
        self.first.setdefault(pid, size)
        self.peak[pid] = max(self.peak.get(pid, 0), size)

    def growth(self) -> list[tuple[str, int]]:
        """Return by how much each process grew at most, the largest growth first."""
        grown = [(self.names[pid], most - self.first[pid]) for pid, most in self.peak.items()]
        return sorted(grown, key=lambda pair: -pair[1])

    def within(self, bound: int) -> tuple[bool, str]:
        """Return whether no process grew by more than `bound`, and a text about it."""
        grown = self.growth()
        text = ", ".join(f"{name} +{size / MEGABYTE:.0f} MB" for name, size in grown[:3])
        holds = all(size <= bound for _, size in grown)
        return holds, f"{text or 'nothing seen'}; the bound is {bound / MEGABYTE:.0f} MB for each"


@contextlib.asynccontextmanager
async def bounded_memory(run: FaultRun, bound: int) -> AsyncIterator[None]:
    """Check that no process of the instance grows by more than `bound` during the block."""
    memory, found = MemoryUsage(), find_processes_in(run.local.run_dir)
    processes = [process for process in found if victim_kind(process.name())]
    _sample(memory, processes)
    async with background(_watch(memory, processes)):
        yield
    run.check("memory is bounded", *memory.within(bound))


def _sample(memory: MemoryUsage, processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(*PROCESS_GONE):  # one that is gone takes no memory
            name = victim_kind(process.name())
            memory.add_sample(process.pid, str(name), process.memory_info().rss)


async def _watch(memory: MemoryUsage, processes: list[psutil.Process]) -> None:
    while True:
        await asyncio.sleep(_EVERY)
        _sample(memory, processes)
