"""Turns for large bodies, because the tenants of a replica share its event loop.

A body waits for its turn only once all of it has arrived, so that a slow sender occupies no turn.
While it waits it counts as memory of its tenant, which limits how many can wait.
"""

import asyncio
from collections import Counter

from core.shared.errors import OverloadedError
from services.shared.tenant_turns import TenantTurns

LARGE_BODY_BYTES = 16 * 1024
"""A body with more bytes is large."""
MAX_CONCURRENT_BODIES = 1
"""How many large bodies of one tenant are processed at once."""
MAX_TURN_SECONDS = 0.5
"""Seconds after which a turn ends: a request that takes longer is waiting, not computing."""

_TOO_LATE = (
    "large bodies of your tenant wait for their turn beside other tenants' requests; try again"
)


class LargeBodyTurn:
    """The turn of one body, which ends by a call or after a timeout."""

    __slots__ = ("_bodies", "_tenant", "_timer")

    def __init__(self, bodies: "LargeBodies", tenant: int) -> None:
        self._bodies = bodies
        self._tenant = tenant
        loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = loop.call_later(MAX_TURN_SECONDS, self.end)

    def end(self) -> None:
        """Pass the turn on to the next body; a second call does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._bodies.pass_on(self._tenant)


class LargeBodies:
    """Limits how many large bodies each tenant processes at once; others wait in order."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()
        self._turns = TenantTurns(
            lambda tenant, _: self._begun[tenant] < MAX_CONCURRENT_BODIES, self._take, self._release
        )
        self.pass_on = self._turns.leave

    async def begin(self, tenant: int, timeout_seconds: float) -> LargeBodyTurn:
        """Wait for a turn; raise OverloadedError if there is none within `timeout_seconds`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._turns.enter(tenant)
        except TimeoutError:
            raise OverloadedError(_TOO_LATE) from None
        return LargeBodyTurn(self, tenant)

    def _take(self, tenant: int, _: int) -> None:
        self._begun[tenant] += 1

    def _release(self, tenant: int, _: int) -> None:
        self._begun[tenant] -= 1
        if not self._begun[tenant]:
            del self._begun[tenant]
