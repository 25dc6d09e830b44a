"""Turns for large bodies, because the tenants of a replica share its event loop.

A body waits for its turn only once all of it has arrived, so that a slow sender occupies no turn.
While it waits it counts as memory of its tenant, which limits how many can wait.
"""

import asyncio
from collections import deque

from core.shared.errors import OverloadedError
from serve_app.limits.timeouts import with_timeout

LARGE_BODY_BYTES = 16 * 1024
"""A body with more bytes is large."""
MAX_CONCURRENT_BODIES = 1
"""How many large bodies of one tenant are processed at once."""
MAX_TURN_SECONDS = 0.5
"""Seconds after which a turn ends: a request that takes longer is waiting, not computing."""

_TOO_LATE = (
    "large bodies of your tenant wait for their turn beside other tenants' requests; come again"
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
        self._begun: dict[int, int] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    async def begin(self, tenant: int, timeout_seconds: float) -> LargeBodyTurn:
        """Wait for a turn.

        Raises:
            OverloadedError: There was no turn within `timeout_seconds`.
        """
        begun = self._begun.get(tenant, 0)
        if begun < MAX_CONCURRENT_BODIES:
            self._begun[tenant] = begun + 1
        else:
            await self._wait(tenant, timeout_seconds)
        return LargeBodyTurn(self, tenant)

    async def _wait(self, tenant: int, timeout_seconds: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await with_timeout(timeout_seconds, turn)
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.pass_on(tenant)  # the turn came at the same moment
            if isinstance(error, TimeoutError):
                raise OverloadedError(_TOO_LATE) from None
            raise

    def pass_on(self, tenant: int) -> None:
        """Give an ended turn to the next body that still waits."""
        waiting = self._waiting.get(tenant, ())
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(tenant, None)
        left = self._begun[tenant] - 1
        if left:
            self._begun[tenant] = left
        else:
            del self._begun[tenant]
