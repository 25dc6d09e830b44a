"""Somebody who has nothing to do with a fault, asks for little, and notes how he is served."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from cli.shell.client import Client, UnreachableError
from cli.shell.problems import ProblemResponseError
from tools.chaos.fault import FaultRun
from tools.chaos.probe import register_once

_PAUSE = 0.05
_TIMEOUT = 10.0
MAX_SLOWDOWN = 3
"""Times what it takes without the fault."""
ALLOWED_SECONDS = 0.5
"""Seconds, however fast it is without."""
MAX_FAILURE_SHARE = 0.02


@dataclass(slots=True)
class BystanderStats:
    """What a bystander met."""

    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        """How long half of the answers took at most."""
        return statistics.median(self.latencies) if self.latencies else _TIMEOUT

    @property
    def failed(self) -> float:
        """The share of requests that were not carried out."""
        return len(self.refused) / max(1, len(self.refused) + len(self.latencies))


async def sample_service(client: Client, seconds: float) -> BystanderStats:
    """Ask again and again for so long."""
    served = BystanderStats()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await _ask(client, served)
    return served


@contextlib.asynccontextmanager
async def bystander(client: Client) -> AsyncIterator[BystanderStats]:
    """Ask again and again for as long as the block lasts."""
    served = BystanderStats()

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


def check_bystander(scene: FaultRun, during: BystanderStats, without: BystanderStats) -> None:
    """Others must hardly notice: neither refused, nor much slower."""
    scene.check(
        "others are served meanwhile",
        during.failed <= MAX_FAILURE_SHARE and bool(during.latencies),
        f"{len(during.latencies)} times, {len(during.refused)} times not"
        + (f" ({during.refused[0]})" if during.refused else ""),
    )
    bound = max(ALLOWED_SECONDS, MAX_SLOWDOWN * without.median)
    scene.check(
        "as soon as without it",
        during.median <= bound,
        f"after {during.median * 1000:.0f} ms (p50), {without.median * 1000:.0f} ms without; the "
        f"bound is {bound * 1000:.0f} ms",
    )


async def _ask(client: Client, served: BystanderStats) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_TIMEOUT):
            await register_once(client)
    except (TimeoutError, UnreachableError, ProblemResponseError) as error:
        served.refused.append(str(error) or "no answer")
    else:
        served.latencies.append(time.monotonic() - began)
    await asyncio.sleep(_PAUSE)
