"""Fault: another tenant takes all it can get of each shared resource.

For each resource the same caller is timed alone, beside the noisy tenant, and alone again, so
that a slow minute of the machine affects both.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemResponseError
from core.access.permissions import ALL_PERMISSIONS
from storage.access import keys
from storage.postgres.pool import PoolOptions, open_pool
from tools.chaos.fault import Disruption, Fault, FaultRun
from tools.chaos.faults.noisy_tenant import Noise, NoiseKind, noisy_tenant
from tools.chaos.scenario import LONG_TIMEOUT, SERVICE

MAX_SLOWDOWN = 3
"""Times the 99th percentile alone."""
ALLOWED_SECONDS = 0.5
"""Seconds, however fast it is alone."""
MAX_FAILURE_SHARE = 0.01
WINDOWS = 2
_CALLERS = 4
_PAUSE = 0.01
_TIMEOUT = 10.0
TimedRequest: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(slots=True)
class LatencyWindow:
    """What a quiet tenant met in some seconds."""

    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """The latency that 99 of 100 requests did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] if ordered else _TIMEOUT


async def measure_latency(client: Client, seconds: float) -> LatencyWindow:
    """Register waits and call back, a few at a time, for so long."""
    window, until = LatencyWindow(), time.monotonic() + seconds

    async def go_on() -> None:
        while time.monotonic() < until:
            for request in _requests(client):
                await _time(request, window)
            await asyncio.sleep(_PAUSE)

    await asyncio.gather(*(go_on() for _ in range(_CALLERS)))
    return window


@dataclass(slots=True)
class NeighbourComparison:
    """Windows alone and beside the noisy tenant."""

    alone: list[LatencyWindow] = field(default_factory=list)
    beside: list[LatencyWindow] = field(default_factory=list)

    @property
    def p99_alone(self) -> float:
        """Of the slower window: the machine may have other things to do."""
        return max(window.p99 for window in self.alone)

    @property
    def p99_beside(self) -> float:
        """Of the faster window: what the noise does, it does to both."""
        return min(window.p99 for window in self.beside)

    @property
    def bound(self) -> float:
        """What the noisy tenant may make of it."""
        return max(ALLOWED_SECONDS, MAX_SLOWDOWN * self.p99_alone)

    @property
    def refused(self) -> list[str]:
        """Answers that were none, or a no."""
        return [one for window in self.beside for one in window.refused]

    @property
    def holds(self) -> bool:
        """Whether the quiet tenant hardly notices."""
        count = sum(len(w.latencies) for w in self.beside) + len(self.refused)
        return self.p99_beside <= self.bound and len(self.refused) <= MAX_FAILURE_SHARE * count

    def __str__(self) -> str:
        refused = self.refused
        no = f"{len(refused)} refused ({refused[0]})" if refused else "none refused"
        return (
            f"p99 {self.p99_beside * 1000:.0f} ms, {self.p99_alone * 1000:.0f} ms alone, bound "
            f"{self.bound * 1000:.0f} ms; {no} of {sum(len(w.latencies) for w in self.beside):,}"
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


async def create_tenant_key(dsn: str) -> str:
    """Create a tenant and return its admin key."""
    pool = await open_pool(PoolOptions(dsn=dsn, name="chaos", max_size=1))
    try:
        key = keys.NewKey(
            tenant=await keys.create_tenant(pool, f"noisy-{secrets.token_hex(4)}"),
            name="noisy",
            prefix=secrets.token_hex(6),
            secret=secrets.token_hex(16),
            permissions=ALL_PERMISSIONS,
        )
        return await keys.create_key(pool, key)
    finally:
        await pool.close()


async def neighbour(scene: FaultRun) -> None:
    """Use up one shared resource after another."""
    key = await create_tenant_key(scene.local.dsn)
    for number, kind in enumerate(NoiseKind):
        scene.progress = number / len(NoiseKind)
        noise = Noise(url=scene.local.url, key=key, kind=kind)
        at = scene.elapsed
        found = await compare_tenants(scene.client, noise, scene.seconds)
        scene.note(Disruption(f"another tenant takes all {kind}", at))
        scene.check(f"{kind} of one tenant are not felt by others", found.holds, str(found))


def _requests(client: Client) -> Iterator[TimedRequest]:
    name = secrets.token_hex(8)
    ids = {"executionId": f"quiet-{name}", "correlationId": f"q-{name}"}
    data = {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": LONG_TIMEOUT}
    headers = {"X-Execution-Id": ids["executionId"], "X-Correlation-Id": ids["correlationId"]}
    yield lambda: client.post("/api/wait-states", {**ids, "nodeId": "wait", "data": data})
    yield lambda: client.post(f"/api/internal/callbacks/{SERVICE}", {"ok": True}, headers)


async def _time(request: TimedRequest, window: LatencyWindow) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_TIMEOUT):
            await request()
    except (TimeoutError, UnreachableError, ProblemResponseError) as error:
        window.refused.append(str(error) or "no answer")
    else:
        window.latencies.append(time.monotonic() - began)


NEIGHBOUR = (
    Fault(
        name="noisy-neighbour",
        summary="Another tenant takes all it can get of each shared thing, one after another.",
        inject=neighbour,
        seconds=20.0,
    ),
)
