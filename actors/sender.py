"""One sender per target: while calls are under way the next one gathers. No timers.

Two calls may be under way: while one is being committed, the other is being decided. A caller that
needs an order waits for its answer first; between callers there is none.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from core.errors import OverloadedError, UnavailableError
from core.messages import Message, Reply, decode_replies, encode
from core.tenant_share import SharedLimit

Call: TypeAlias = Callable[[bytes], Awaitable[bytes]]

UNDER_WAY = 2
# A call costs more than what is in it: a second one beside the first must carry this much.
WORTH_A_CALL = 64
BATCH_MESSAGES = 1_000
BATCH_BYTES = 4 * 1024 * 1024
# A parcel travels whole; what is heavier becomes several.
PARCEL_BYTES = 32 * 1024 * 1024
QUEUE_BYTES = 128 * 1024 * 1024


def weight_of(message: Message) -> int:
    """About how many bytes it takes."""
    return len(getattr(message, "payload", b"")) + len(getattr(message, "asked", b"")) + 300


class Parcel:
    """Messages that one caller sends to one target, and where their answers go.

    They count as those of the first one's tenant: only the product itself mixes tenants.
    """

    __slots__ = ("future", "messages", "tenant", "weight")

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.tenant = messages[0].address.tenant
        self.weight = sum(map(weight_of, messages))
        self.future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

    def abandon(self) -> None:
        """The caller looks no further, whether this was answered or not."""
        if not self.future.cancel() and not self.future.cancelled():
            self.future.exception()  # else asyncio complains that nobody looked

    def fail(self, error: Exception) -> None:
        """There will be no answer."""
        if not self.abandoned:
            self.future.set_exception(error)

    @property
    def abandoned(self) -> bool:
        """Its caller has stopped waiting."""
        return self.future.done()


class Sender:
    """Sends what gathered since the last call returned, in order."""

    def __init__(self, call: Call, limit: int, most_bytes: int = QUEUE_BYTES) -> None:
        self._call = call
        self._limit = limit
        self._queue: deque[Parcel] = deque()
        self._queued = SharedLimit(limit, whole_if_alone=True)
        self._bytes = SharedLimit(most_bytes, whole_if_alone=True)
        self._draining = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, parcel: Parcel) -> None:
        """Take a parcel, or refuse it now if too much is waiting already."""
        tenant, count, now = parcel.tenant, len(parcel.messages), time.monotonic()
        has_share = self._queued.fits(tenant, count, now)
        if self._queued.taken + count > self._limit:
            raise OverloadedError("too many messages wait for this shard")
        if not (has_share and self._bytes.fits(tenant, parcel.weight, now)):
            raise OverloadedError("too many messages of this tenant wait for this shard")
        self._queue.append(parcel)
        self._queued.take(tenant, count)
        self._bytes.take(tenant, parcel.weight)
        if not self._draining or (
            self._draining < UNDER_WAY and self._queued.taken >= WORTH_A_CALL
        ):
            self._draining += 1
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    @property
    def idle(self) -> bool:
        """Nothing is queued or under way."""
        return not self._queue and not self._draining

    async def close(self) -> None:
        """Stop; callers still waiting are told."""
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for parcel in self._queue:
            parcel.fail(UnavailableError("shutting down"))

    async def _drain(self) -> None:
        try:
            while self._queue:
                parcels = self._next_batch()
                if parcels:
                    await self._send(parcels)
        finally:
            # Here and not in a callback: a caller that sends again the moment it is answered runs
            # before any callback would, and would count on a task that has already ended.
            self._draining -= 1

    async def _send(self, parcels: list[Parcel]) -> None:
        messages = [message for parcel in parcels for message in parcel.messages]
        try:
            replies = decode_replies(await self._call(encode(messages)))
        except Exception as error:
            for parcel in parcels:
                parcel.fail(error)
            return
        except asyncio.CancelledError:
            for parcel in parcels:
                parcel.fail(UnavailableError("shutting down"))
            raise
        start = 0
        for parcel in parcels:
            end = start + len(parcel.messages)
            if not parcel.abandoned:
                parcel.future.set_result(replies[start:end])
            start = end

    def _next_batch(self) -> list[Parcel]:
        parcels: list[Parcel] = []
        messages = weight = 0
        while self._queue:
            parcel = self._queue[0]
            too_much = messages + len(parcel.messages) > BATCH_MESSAGES
            if parcels and (too_much or weight + parcel.weight > BATCH_BYTES):
                break
            self._queue.popleft()
            self._queued.release(parcel.tenant, len(parcel.messages))
            self._bytes.release(parcel.tenant, parcel.weight)
            if parcel.abandoned:
                continue  # nobody waits for it and it was never sent: it did not happen
            parcels.append(parcel)
            messages += len(parcel.messages)
            weight += parcel.weight
        return parcels
