"""How much memory the instance's processes take while something is done to them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from host.processes import PROCESS_GONE, find_processes_in
from tools.chaos.faults.victims import victim_kind

_EVERY = 0.25
MEGABYTE = 1024 * 1024


@dataclass(slots=True)
class MemoryUsage:
    """Resident bytes by process: at first sight, and at most."""

    first: dict[int, int] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def add_sample(self, pid: int, name: str, size: int) -> None:
        """Note one look at one process."""
        self.names[pid] = name
        self.first.setdefault(pid, size)
        self.peak[pid] = max(self.peak.get(pid, 0), size)

    def growth(self) -> list[tuple[str, int]]:
        """By how much each process grew at most, the greediest first."""
        grown = [(self.names[pid], most - self.first[pid]) for pid, most in self.peak.items()]
        return sorted(grown, key=lambda pair: -pair[1])

    def within(self, bound: int) -> tuple[bool, str]:
        """Whether no process grew by more than `bound`, and how to say it."""
        grown = self.growth()
        told = ", ".join(f"{name} +{size / MEGABYTE:.0f} MB" for name, size in grown[:3])
        holds = all(size <= bound for _, size in grown)
        return holds, f"{told or 'nothing seen'}; the bound is {bound / MEGABYTE:.0f} MB for each"


@contextlib.asynccontextmanager
async def watch_memory(run_dir: Path) -> AsyncIterator[MemoryUsage]:
    """Look at every process of the instance again and again for as long as the block lasts."""
    memory = MemoryUsage()
    processes = [process for process in find_processes_in(run_dir) if victim_kind(process.name())]
    sample_memory(memory, processes)
    task = asyncio.create_task(_watch(memory, processes))
    try:
        yield memory
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def sample_memory(memory: MemoryUsage, processes: list[psutil.Process]) -> None:
    """One look at each of them; one that is gone takes no memory."""
    for process in processes:
        with contextlib.suppress(*PROCESS_GONE):
            name = victim_kind(process.name())
            memory.add_sample(process.pid, str(name), process.memory_info().rss)


async def _watch(memory: MemoryUsage, processes: list[psutil.Process]) -> None:
    while True:
        await asyncio.sleep(_EVERY)
        sample_memory(memory, processes)
