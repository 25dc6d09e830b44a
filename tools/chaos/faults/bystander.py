"""Somebody who has nothing to do with a fault, asks for little, and notes how he is served."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemError
from tools.chaos.fault import Scene
from tools.chaos.probe import register_once

_PAUSE = 0.05
_PATIENCE = 10.0
SLOWER = 3
"""Times what it takes without the fault."""
ALWAYS_ALLOWED = 0.5
"""Seconds, however fast it is without."""
MAY_FAIL = 0.02


@dataclass(slots=True)
class Served:
    """What a bystander met."""

    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        """How long half of the answers took at most."""
        return statistics.median(self.latencies) if self.latencies else _PATIENCE

    @property
    def failed(self) -> float:
        """The share of requests that were not carried out."""
        return len(self.refused) / max(1, len(self.refused) + len(self.latencies))


async def look_around(client: Client, seconds: float) -> Served:
    """Ask again and again for so long."""
    served = Served()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await _ask(client, served)
    return served


@contextlib.asynccontextmanager
async def bystander(client: Client) -> AsyncIterator[Served]:
    """Ask again and again for as long as the block lasts."""
    served = Served()

    async def go_on() -> None:
        while True:
            await _ask(client, served)

    task = asyncio.create_task(go_on())
    try:
        yield served
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def check_served(scene: Scene, during: Served, without: Served) -> None:
    """Others must hardly notice: neither refused, nor much slower."""
    scene.check(
        "others are served meanwhile",
        during.failed <= MAY_FAIL and bool(during.latencies),
        f"{len(during.latencies)} times, {len(during.refused)} times not"
        + (f" ({during.refused[0]})" if during.refused else ""),
    )
    bound = max(ALWAYS_ALLOWED, SLOWER * without.median)
    scene.check(
        "as soon as without it",
        during.median <= bound,
        f"after {during.median * 1000:.0f} ms (p50), {without.median * 1000:.0f} ms without; the "
        f"bound is {bound * 1000:.0f} ms",
    )


async def _ask(client: Client, served: Served) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_PATIENCE):
            await register_once(client)
    except (TimeoutError, UnreachableError, ProblemError) as error:
        served.refused.append(str(error) or "no answer")
    else:
        served.latencies.append(time.monotonic() - began)
    await asyncio.sleep(_PAUSE)
