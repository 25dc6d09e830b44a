"""Limits the concurrency and the rate of calls to one resource, and counts their results."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from actors.gathers.admission import ConcurrencyLimiter
from core.gathers.gather import Resource
from core.shared.call_outcome import CallState
from core.shared.rate_limit import SlidingWindow

MINUTE = 60.0
# The health of a resource is judged by its latest calls of the last minutes.
RECENT_CALLS = 10
RECENT = 300.0

_FAILED = frozenset({CallState.TIMEOUT, CallState.CONNECTION_CLOSED, CallState.ERROR})


class ResourceLimiter:
    """Admits calls in the order they arrive."""

    def __init__(
        self, monotonic: Callable[[], float], places: ConcurrencyLimiter, tenant: int
    ) -> None:
        self._monotonic = monotonic
        self._places = places
        self._tenant = tenant
        self._allowance: SlidingWindow | None = None
        self._entrance = asyncio.Lock()
        self._somebody_left = asyncio.Event()
        self._room = 0
        self._waiting = 0
        self.under_way = 0
        self.last_used = monotonic()
        self._counts: dict[str, int] = {}
        self._seconds = 0.0
        self._recent: deque[tuple[float, bool]] = deque(maxlen=RECENT_CALLS)

    @contextlib.asynccontextmanager
    async def slot(self, resource: Resource, weight: int = 0) -> AsyncIterator[None]:
        """Hold a slot of the resource and one of the pool, with room for `weight` bytes.

        The limits of the given resource apply from now on.
        """
        self._room = resource.concurrency
        self._somebody_left.set()  # the new limit may be higher
        self.last_used = self._monotonic()
        await self._enter(resource.rate_per_minute, weight)
        try:
            yield
        finally:
            self.under_way -= 1
            self._places.leave(self._tenant, weight)
            self._somebody_left.set()

    def count(self, state: CallState, seconds: float) -> None:
        self._counts[state] = self._counts.get(state, 0) + 1
        self._seconds += seconds
        self._recent.append((self._monotonic(), state not in _FAILED))

    @property
    def is_up(self) -> bool | None:
        """Return whether most recent calls were answered; None if there were none."""
        horizon = self._monotonic() - RECENT
        answered = [ok for at, ok in self._recent if at > horizon]
        return None if not answered else sum(answered) * 2 > len(answered)

    @property
    def is_idle(self) -> bool:
        return not (self.under_way or self._waiting)

    def snapshot(self) -> dict[str, Any]:
        return {
            "calls": dict(self._counts),
            "seconds": self._seconds,
            "under_way": self.under_way,
            "waiting": self._waiting,
            "up": self.is_up,
        }

    async def _enter(self, rate: int | None, weight: int) -> None:
        """Wait for rate and slot, one call at a time so that none overtakes another."""
        self._waiting += 1
        try:
            async with self._entrance:
                if rate is not None:
                    await self._keep_rate(rate)
                while self.under_way >= self._room:
                    self._somebody_left.clear()
                    await self._somebody_left.wait()
                await self._places.take(self._tenant, weight)
                self.under_way += 1
                if rate is not None and self._allowance is not None:
                    self._allowance.take(self._monotonic())
        finally:
            self._waiting -= 1

    async def _keep_rate(self, rate: int) -> None:
        allowance = self._allowance = self._allowance or SlidingWindow(rate, MINUTE)
        allowance.resize(rate)
        pause = allowance.wait(self._monotonic())
        while pause > 0:
            await asyncio.sleep(pause)
            pause = allowance.wait(self._monotonic())  # a timer may fire slightly early
