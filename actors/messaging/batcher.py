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

from actors.messaging.pending import Loads
from actors.messaging.send_queue import Parcel, SendLane
from core.shared.errors import OverloadedError, UnavailableError
from core.shared.tenant_share import SharedLimit
from core.waits.messages import decode_replies, encode

_ALL_TENANTS = 0
Call: TypeAlias = Callable[[bytes], Awaitable[bytes]]

UNDER_WAY = 2
# A call costs more than what is in it: a second one beside the first must carry this much.
WORTH_A_CALL = 64
BATCH_MESSAGES = 1_000
BATCH_BYTES = 4 * 1024 * 1024
# A parcel travels whole; what is heavier becomes several.
PARCEL_BYTES = 32 * 1024 * 1024
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
MOST_CALLS = 20


class Sender:
    """Sends what gathered since the last call returned, in order."""

    def __init__(self, call: Call, limit: int, most_bytes: int = QUEUE_BYTES) -> None:
        self._call = call
        self._limit = limit
        self._lane = SendLane()
        self._light = SendLane()
        # Light parcels that are not answered, by tenant.
        self._light_parcels: Counter[int] = Counter()
        self._queued = SharedLimit(limit, whole_if_alone=True)
        self._bytes = SharedLimit(most_bytes, whole_if_alone=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, parcel: Parcel) -> None:
        """Take a parcel, or refuse it now if too much is waiting already."""
        tenant, count, now = parcel.tenant, len(parcel.messages), time.monotonic()
        queued, size = self._queued, self._bytes
        has_share = queued.fits(tenant, count, now) and size.fits(tenant, parcel.weight, now)
        if not has_share or count > self._limit:
            is_full = queued.taken + count > self._limit
            whose = "" if is_full else " of this tenant"
            raise OverloadedError(f"too many messages{whose} wait for this shard")
        queued.take(tenant, count)
        size.take(tenant, parcel.weight)
        if queued.is_contested(now) and self._is_light(parcel):
            self._put_light(parcel, now)
            return
        lane = self._lane
        lane.append(tenant, parcel)
        if (
            not lane.calls
            or (lane.calls < UNDER_WAY and lane.messages >= WORTH_A_CALL)
            or (now - lane.began > HANGS_AFTER and lane.calls < MOST_CALLS)
        ):
            self._start(lane)

    def _is_light(self, parcel: Parcel) -> bool:
        return (
            len(parcel.messages) <= LIGHT_MESSAGES
            and parcel.weight <= LIGHT_BYTES
            and self._queued.held_by(parcel.tenant) <= LIGHT_QUEUED
        )

    def _put_light(self, parcel: Parcel, now: float) -> None:
        lane = self._light
        lane.append(_ALL_TENANTS, parcel)
        self._light_parcels[parcel.tenant] += 1
        is_among_first = self._light_parcels[parcel.tenant] <= LIGHT_FIRST
        is_worth_a_call = is_among_first or lane.messages >= WORTH_A_CALL
        if (
            not lane.calls
            or (lane.calls < LIGHT_CALLS and is_worth_a_call)
            or (now - lane.began > HANGS_AFTER and lane.calls < MOST_CALLS)
        ):
            self._start(lane)

    def _start(self, lane: SendLane) -> None:
        lane.calls += 1
        lane.began = time.monotonic()
        task = asyncio.create_task(self._drain(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def most_messages(self) -> int:
        """How many messages one parcel should have at most."""
        is_contested = self._queued.is_contested(time.monotonic())
        return MESSAGES_BESIDE_OTHERS if is_contested else sys.maxsize

    @property
    def idle(self) -> bool:
        """Nothing is queued or under way."""
        return not (self._queued.taken or self._lane.calls or self._light.calls)

    async def close(self) -> None:
        """Stop; callers still waiting are told."""
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for parcel in (*self._lane, *self._light):
            parcel.fail(UnavailableError("shutting down"))

    async def _drain(self, lane: SendLane) -> None:
        try:
            while lane:
                parcels = self._next_batch(lane)
                if parcels:
                    await self._send(parcels)
                    if lane is self._light:
                        self._answered(parcels)
        finally:
            # Here and not in a callback: a caller that sends again the moment it is answered runs
            # before any callback would, and would count on a task that has already ended.
            lane.calls -= 1

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

    def _next_batch(self, lane: SendLane) -> list[Parcel]:
        lane.began = time.monotonic()
        if self._queued.is_contested(lane.began):
            taken = lane.take(MESSAGES_BESIDE_OTHERS, BYTES_BESIDE_OTHERS)
        else:
            taken = lane.take(BATCH_MESSAGES, BATCH_BYTES)
        for tenant, (messages, weight) in _loads_of(taken).items():
            self._queued.release(tenant, messages)
            self._bytes.release(tenant, weight)
        # Nobody waits for some of them, and they were never sent: they did not happen.
        given_up = [parcel for parcel in taken if parcel.abandoned]
        if not given_up:
            return taken
        if lane is self._light:
            self._answered(given_up)
        return [parcel for parcel in taken if not parcel.abandoned]

    def _answered(self, light: list[Parcel]) -> None:
        for parcel in light:
            self._light_parcels[parcel.tenant] -= 1
            if not self._light_parcels[parcel.tenant]:
                del self._light_parcels[parcel.tenant]


def _loads_of(parcels: list[Parcel]) -> Loads:
    loads: Loads = {}
    for parcel in parcels:
        messages, weight = loads.get(parcel.tenant, (0, 0))
        loads[parcel.tenant] = (messages + len(parcel.messages), weight + parcel.weight)
    return loads
