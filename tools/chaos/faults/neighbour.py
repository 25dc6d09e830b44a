"""Fault: another tenant takes all it can get of each shared resource.

For each resource the same caller is timed alone, beside the noisy tenant, and alone again, so
that a slow minute of the machine affects both.
"""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from cli.shell.client import Client
from host.provision import create_admin_key
from storage.postgres.pool import PoolOptions, open_pool
from tools.chaos.fault import FaultRun, fault
from tools.chaos.faults.noisy_tenant import Noise, NoiseKind, noisy_tenant
from tools.chaos.latency import ALLOWED_SECONDS, MAX_SLOWDOWN, LatencyWindow, TimedRequest
from tools.chaos.requests import call_back, register

MAX_FAILURE_SHARE = 0.01
WINDOWS = 2
_CALLERS = 4
_PAUSE = 0.01


async def measure_latency(client: Client, seconds: float) -> LatencyWindow:
    """Register waits and call back, a few at a time, for so long."""
    window = LatencyWindow()

    def requests() -> Iterator[TimedRequest]:
        name = secrets.token_hex(8)
        key = f"quiet-{name}", f"q-{name}"
        yield lambda: register(client, key)
        yield lambda: call_back(client, key, None, {"ok": True})

    await asyncio.gather(*(window.send_for(seconds, requests, _PAUSE) for _ in range(_CALLERS)))
    return window


@dataclass(slots=True)
class NeighbourComparison:
    """Windows alone and beside the noisy tenant."""

    alone: list[LatencyWindow] = field(default_factory=list)
    beside: list[LatencyWindow] = field(default_factory=list)

    @property
    def p99_alone(self) -> float:
        """The slower window's: the machine may have other things to do."""
        return max(window.p99 for window in self.alone)

    @property
    def p99_beside(self) -> float:
        """The faster window's: what the noise does, it does to both."""
        return min(window.p99 for window in self.beside)

    @property
    def bound(self) -> float:
        return max(ALLOWED_SECONDS, MAX_SLOWDOWN * self.p99_alone)

    @property
    def served(self) -> int:
        return sum(len(window.latencies) for window in self.beside)

    @property
    def refused(self) -> list[str]:
        return [one for window in self.beside for one in window.refused]

    @property
    def holds(self) -> bool:
        """Whether the quiet tenant hardly notices."""
        count = self.served + len(self.refused)
        return self.p99_beside <= self.bound and len(self.refused) <= MAX_FAILURE_SHARE * count

    def __str__(self) -> str:
        refused = self.refused
        no = f"{len(refused)} refused ({refused[0]})" if refused else "none refused"
        return (
            f"p99 {self.p99_beside * 1000:.0f} ms, {self.p99_alone * 1000:.0f} ms alone, bound "
            f"{self.bound * 1000:.0f} ms; {no} of {self.served:,}"
        )


async def compare_tenants(client: Client, noise: Noise, seconds: float) -> NeighbourComparison:
    """Time a quiet tenant alone and beside this noise, so long altogether."""
    found, each = NeighbourComparison(), seconds / (2 * WINDOWS)
    found.alone.append(await measure_latency(client, each))
    async with noisy_tenant(noise):
        for _ in range(WINDOWS):
            found.beside.append(await measure_latency(client, each))
    for _ in range(WINDOWS - 1):
        found.alone.append(await measure_latency(client, each))
    return found


async def create_noisy_tenant(dsn: str) -> str:
    """Create a tenant and return its admin key."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="chaos", max_size=1))
    try:
        return await create_admin_key(pool, f"noisy-{secrets.token_hex(4)}")
    finally:
        await pool.close()


@fault(
    "noisy-neighbour",
    "Another tenant takes all it can get of each shared thing, one after another.",
)
async def neighbour(run: FaultRun) -> None:
    """Use up one shared resource after another."""
    key = await create_noisy_tenant(run.local.dsn)
    for number, kind in enumerate(NoiseKind):
        run.progress, at = number / len(NoiseKind), run.elapsed
        noise = Noise(url=run.local.url, key=key, kind=kind)
        found = await compare_tenants(run.client, noise, run.seconds)
        run.note(f"another tenant takes all {kind}", at)
        run.check(f"{kind} of one tenant are not felt by others", found.holds, str(found))
