"""Turns that are ready to run, by tenant, with tenants taking turns.

A tenant with a thousand messages delays another by one slice of time, not by the thousand.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from actors.entities.turn import EntityTurn
from services.shared.time_slice import TimeSlice

SLICE = 0.005
"""Seconds for which turns run before the event loop does something else."""


class RunQueue:
    def __init__(self, run: Callable[[EntityTurn], None], monotonic: Callable[[], float]) -> None:
        self._run = run
        self._monotonic = monotonic
        self._by_tenant: dict[int, deque[EntityTurn]] = {}
        self._work = asyncio.Event()

    def add(self, turn: EntityTurn) -> None:
        turns = self._by_tenant.get(turn.tenant)
        if turns is None:
            turns = self._by_tenant[turn.tenant] = deque()
            self._work.set()
        turns.append(turn)

    async def run_forever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            timeslice = TimeSlice(SLICE, self._monotonic)
            while self._by_tenant:
                self._run(self._take())
                if timeslice.is_due:
                    await timeslice.take()

    def _take(self) -> EntityTurn:
        """Take a turn of the tenant that has waited longest."""
        tenant = next(iter(self._by_tenant))
        turns = self._by_tenant.pop(tenant)
        turn = turns.popleft()
        if turns:
            self._by_tenant[tenant] = turns
        return turn
