"""How requests of a caller are served, alone and while something is wrong."""

import asyncio
import contextlib
import math
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cli.shell.client import UnreachableError
from cli.shell.problems import ProblemResponseError
from tools.chaos.fault import FaultRun
from tools.load.tasks import background

MAX_SLOWDOWN = 3
"""Times the latency without the fault."""
ALLOWED_SECONDS = 0.5
"""Always allowed, however fast it is without."""
_MAX_FAILURE_SHARE = 0.02
_PAUSE = 0.05
_TIMEOUT = 10.0
TimedRequest: TypeAlias = Callable[[], Awaitable[Any]]


def percentile(values: Sequence[float], share: float, default: float = 0.0) -> float:
    """Return the value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else default


@dataclass(slots=True)
class LatencyWindow:
    """The latencies of some seconds, and the requests that were refused or not answered."""

    latencies: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.latencies) if self.latencies else _TIMEOUT

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 0.99, default=_TIMEOUT)

    @property
    def failure_share(self) -> float:
        return len(self.refused) / max(1, len(self.refused) + len(self.latencies))

    async def send(self, request: TimedRequest) -> None:
        """Send one request and note how it was served."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT):
                await request()
        except (TimeoutError, UnreachableError, ProblemResponseError) as error:
            self.refused.append(str(error) or "no answer")
        else:
            self.latencies.append(time.monotonic() - began)

    async def send_for(
        self, seconds: float, requests: Callable[[], Iterable[TimedRequest]], pause: float
    ) -> None:
        """Send requests one after another for so long; the last one is waited for."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for request in requests():
                await self.send(request)
            await asyncio.sleep(pause)


async def sample(request: TimedRequest, seconds: float) -> LatencyWindow:
    """Time a caller that sends a request now and then, for so long."""
    window = LatencyWindow()
    await window.send_for(seconds, lambda: [request], _PAUSE)
    return window


@contextlib.asynccontextmanager
async def bystander(request: TimedRequest) -> AsyncIterator[LatencyWindow]:
    """Time such a caller for as long as the block lasts."""
    window = LatencyWindow()
    async with background(window.send_for(math.inf, lambda: [request], _PAUSE)):
        yield window


def check_bystander(
    run: FaultRun,
    during: LatencyWindow,
    *without: LatencyWindow,
    who: str = "others",
    max_slowdown: float = MAX_SLOWDOWN,
    allowed: float = ALLOWED_SECONDS,
) -> None:
    """Check that a caller is neither refused nor much slower than at its slowest without."""
    served, refused = len(during.latencies), len(during.refused)
    run.check(
        f"{who} are served meanwhile",
        during.failure_share <= _MAX_FAILURE_SHARE and served > 0,
        f"{served} times, {refused} times not"
        + (f" ({during.refused[0]})" if during.refused else ""),
    )
    usual = max(window.median for window in without)
    bound = max(allowed, max_slowdown * usual)
    run.check(
        "as soon as without it",
        during.median <= bound,
        f"after {during.median * 1000:.0f} ms (p50), {usual * 1000:.0f} ms without; the bound is "
        f"{bound * 1000:.0f} ms",
    )
