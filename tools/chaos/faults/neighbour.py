"""Another tenant takes all it can get: what do the others feel?

For each shared thing the same caller is timed alone, beside the noisy tenant, and alone again, so
that a slow minute of the machine hits both.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemError
from core.access.permissions import ALL_PERMISSIONS
from storage.access import keys
from storage.postgres.pool import PoolOptions, open_pool
from tools.chaos.fault import Blow, Fault, Scene
from tools.chaos.faults.noisy_tenant import Kind, Noise, noisy_tenant
from tools.chaos.scenario import LONG, SERVICE

SLOWER = 3
"""Times the 99th percentile alone."""
ALWAYS_ALLOWED = 0.5
"""Seconds, however fast it is alone."""
MAY_FAIL = 0.01
WINDOWS = 2
_CALLERS = 4
_PAUSE = 0.01
_PATIENCE = 10.0
Request: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(slots=True)
class Window:
    """What a quiet tenant met in some seconds."""

    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """The latency that 99 of 100 requests did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] if ordered else _PATIENCE


async def timed(client: Client, seconds: float) -> Window:
    """Register waits and call back, a few at a time, for so long."""
    window, until = Window(), time.monotonic() + seconds

    async def go_on() -> None:
        while time.monotonic() < until:
            for request in _requests(client):
                await _time(request, window)
            await asyncio.sleep(_PAUSE)

    await asyncio.gather(*(go_on() for _ in range(_CALLERS)))
    return window


@dataclass(slots=True)
class Compared:
    """Windows alone and beside the noisy tenant."""

    alone: list[Window] = field(default_factory=list)
    beside: list[Window] = field(default_factory=list)

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
        return max(ALWAYS_ALLOWED, SLOWER * self.p99_alone)

    @property
    def refused(self) -> list[str]:
        """Answers that were none, or a no."""
        return [one for window in self.beside for one in window.refused]

    @property
    def holds(self) -> bool:
        """Whether the quiet tenant hardly notices."""
        count = sum(len(w.latencies) for w in self.beside) + len(self.refused)
        return self.p99_beside <= self.bound and len(self.refused) <= MAY_FAIL * count

    def __str__(self) -> str:
        refused = self.refused
        no = f"{len(refused)} refused ({refused[0]})" if refused else "none refused"
        return (
            f"p99 {self.p99_beside * 1000:.0f} ms, {self.p99_alone * 1000:.0f} ms alone, bound "
            f"{self.bound * 1000:.0f} ms; {no} of {sum(len(w.latencies) for w in self.beside):,}"
        )


async def compare_tenants(client: Client, noise: Noise, seconds: float) -> Compared:
    """Time a quiet tenant alone and beside this noise, so long altogether."""
    found, each = Compared(), seconds / (2 * WINDOWS)
    found.alone.append(await timed(client, each))
    async with noisy_tenant(noise):
        for _ in range(WINDOWS):
            found.beside.append(await timed(client, each))
    for _ in range(WINDOWS - 1):
        found.alone.append(await timed(client, each))
    return found


async def new_tenant(dsn: str) -> str:
    """The admin key of a tenant that nobody has used."""
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


async def neighbour(scene: Scene) -> None:
    """One shared thing after another."""
    key = await new_tenant(scene.local.dsn)
    for number, kind in enumerate(Kind):
        scene.share = number / len(Kind)
        noise = Noise(url=scene.local.url, key=key, kind=kind)
        at = scene.elapsed
        found = await compare_tenants(scene.client, noise, scene.seconds)
        scene.note(Blow(f"another tenant takes all {kind}", at))
        scene.check(f"{kind} of one tenant are not felt by others", found.holds, str(found))


def _requests(client: Client) -> Iterator[Request]:
    name = secrets.token_hex(8)
    ids = {"executionId": f"quiet-{name}", "correlationId": f"q-{name}"}
    data = {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": LONG}
    headers = {"X-Execution-Id": ids["executionId"], "X-Correlation-Id": ids["correlationId"]}
    yield lambda: client.post("/api/wait-states", {**ids, "nodeId": "wait", "data": data})
    yield lambda: client.post(f"/api/internal/callbacks/{SERVICE}", {"ok": True}, headers)


async def _time(request: Request, window: Window) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_PATIENCE):
            await request()
    except (TimeoutError, UnreachableError, ProblemError) as error:
        window.refused.append(str(error) or "no answer")
    else:
        window.latencies.append(time.monotonic() - began)


NEIGHBOUR = (
    Fault(
        name="noisy-neighbour",
        summary="Another tenant takes all it can get of each shared thing, one after another.",
        strike=neighbour,
        seconds=20.0,
    ),
)
