"""One sender per target: while calls are under way the next one gathers. No timers.

Two calls may be under way: while one is being committed, the other is being decided. A caller that
needs an order waits for its answer first; between callers there is none.

A call is answered as a whole. So where several tenants send, each call of those who send much is
short and one tenant's, by turns, and what the others send goes past them in calls of its own.
"""

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from actors.messaging.pending import TenantLoads
from actors.messaging.send_queue import SendQueue, SendRequest
from core.shared.errors import OverloadedError, UnavailableError
from core.shared.tenant_share import SharedLimit
from core.waits.messages import decode_replies, encode_batch

_ALL_TENANTS = 0
CallActor: TypeAlias = Callable[[bytes], Awaitable[bytes]]

MAX_CALLS_UNDER_WAY = 2
# A call costs more than what is in it: a second one beside the first must carry this much.
MIN_EXTRA_CALL_MESSAGES = 64
BATCH_MESSAGES = 1_000
BATCH_BYTES = 4 * 1024 * 1024
# A parcel travels whole; what is heavier becomes several.
MAX_REQUEST_BYTES = 32 * 1024 * 1024
QUEUE_BYTES = 128 * 1024 * 1024
# What a call carries where several tenants send, or one parcel: a shard takes a call in one go.
MESSAGES_BESIDE_OTHERS = 128
BYTES_BESIDE_OTHERS = 512 * 1024
# There, a parcel up to this size goes past the larger ones, unless its tenant has so many waiting.
LIGHT_MESSAGES = 16
LIGHT_BYTES = 16 * 1024
LIGHT_QUEUED = 64
# A tenant's first ones go at once, the next ones gather until those are answered.
LIGHT_FIRST = 4
LIGHT_CALLS = 16
# When no call has begun for so long, those under way hang, and one more is tried.
HANGS_AFTER = 1.0
MAX_CALLS = 20


class Batcher:
    """Sends what gathered since the last call returned, in order."""

    def __init__(self, call: CallActor, limit: int, max_bytes: int = QUEUE_BYTES) -> None:
        self._call = call
        self._limit = limit
        self._queue = SendQueue()
        self._light = SendQueue()
        # Light parcels that are not answered, by tenant.
        self._light_parcels: Counter[int] = Counter()
        self._queued = SharedLimit(limit, whole_if_alone=True)
        self._bytes = SharedLimit(max_bytes, whole_if_alone=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, request: SendRequest) -> None:
        """Take a parcel, or refuse it now if too much is waiting already."""
        tenant, count, now = request.tenant, len(request.messages), time.monotonic()
        queued, size = self._queued, self._bytes
        has_share = queued.fits(tenant, count, now) and size.fits(tenant, request.weight, now)
        if not has_share or count > self._limit:
            is_full = queued.taken + count > self._limit
            whose = "" if is_full else " of this tenant"
            raise OverloadedError(f"too many messages{whose} wait for this shard")
        queued.take(tenant, count)
        size.take(tenant, request.weight)
        if queued.is_contested(now) and self._is_light(request):
            self._put_light(request, now)
            return
        queue = self._queue
        queue.append(tenant, request)
        if (
            not queue.calls
            or (queue.calls < MAX_CALLS_UNDER_WAY and queue.messages >= MIN_EXTRA_CALL_MESSAGES)
            or (now - queue.began > HANGS_AFTER and queue.calls < MAX_CALLS)
        ):
            self._start(queue)

    def _is_light(self, request: SendRequest) -> bool:
        return (
            len(request.messages) <= LIGHT_MESSAGES
            and request.weight <= LIGHT_BYTES
            and self._queued.held_by(request.tenant) <= LIGHT_QUEUED
        )

    def _put_light(self, request: SendRequest, now: float) -> None:
        queue = self._light
        queue.append(_ALL_TENANTS, request)
        self._light_parcels[request.tenant] += 1
        is_among_first = self._light_parcels[request.tenant] <= LIGHT_FIRST
        is_worth_a_call = is_among_first or queue.messages >= MIN_EXTRA_CALL_MESSAGES
        if (
            not queue.calls
            or (queue.calls < LIGHT_CALLS and is_worth_a_call)
            or (now - queue.began > HANGS_AFTER and queue.calls < MAX_CALLS)
        ):
            self._start(queue)

    def _start(self, queue: SendQueue) -> None:
        queue.calls += 1
        queue.began = time.monotonic()
        task = asyncio.create_task(self._drain(queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def max_messages(self) -> int:
        """How many messages one parcel should have at most."""
        is_contested = self._queued.is_contested(time.monotonic())
        return MESSAGES_BESIDE_OTHERS if is_contested else sys.maxsize

    @property
    def idle(self) -> bool:
        """Nothing is queued or under way."""
        return not (self._queued.taken or self._queue.calls or self._light.calls)

    async def close(self) -> None:
        """Stop; callers still waiting are told."""
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for request in (*self._queue, *self._light):
            request.fail(UnavailableError("shutting down"))

    async def _drain(self, queue: SendQueue) -> None:
        try:
            while queue:
                requests = self._next_batch(queue)
                if requests:
                    await self._send(requests)
                    if queue is self._light:
                        self._answered(requests)
        finally:
            # Here and not in a callback: a caller that sends again the moment it is answered runs
            # before any callback would, and would count on a task that has already ended.
            queue.calls -= 1

    async def _send(self, requests: list[SendRequest]) -> None:
        messages = [message for request in requests for message in request.messages]
        try:
            replies = decode_replies(await self._call(encode_batch(messages)))
        except Exception as error:
            for request in requests:
                request.fail(error)
            return
        except asyncio.CancelledError:
            for request in requests:
                request.fail(UnavailableError("shutting down"))
            raise
        start = 0
        for request in requests:
            end = start + len(request.messages)
            if not request.abandoned:
                request.future.set_result(replies[start:end])
            start = end

    def _next_batch(self, queue: SendQueue) -> list[SendRequest]:
        queue.began = time.monotonic()
        if self._queued.is_contested(queue.began):
            taken = queue.take(MESSAGES_BESIDE_OTHERS, BYTES_BESIDE_OTHERS)
        else:
            taken = queue.take(BATCH_MESSAGES, BATCH_BYTES)
        for tenant, (messages, weight) in _loads_of(taken).items():
            self._queued.release(tenant, messages)
            self._bytes.release(tenant, weight)
        # Nobody waits for some of them, and they were never sent: they did not happen.
        given_up = [request for request in taken if request.abandoned]
        if not given_up:
            return taken
        if queue is self._light:
            self._answered(given_up)
        return [request for request in taken if not request.abandoned]

    def _answered(self, light: list[SendRequest]) -> None:
        for request in light:
            self._light_parcels[request.tenant] -= 1
            if not self._light_parcels[request.tenant]:
                del self._light_parcels[request.tenant]


def _loads_of(requests: list[SendRequest]) -> TenantLoads:
    loads: TenantLoads = {}
    for request in requests:
        messages, weight = loads.get(request.tenant, (0, 0))
        loads[request.tenant] = (messages + len(request.messages), weight + request.weight)
    return loads
