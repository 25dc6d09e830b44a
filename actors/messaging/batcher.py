"""Batches messages to one actor: messages that arrive during a call go into the next. No timers.

Two calls may be under way: while one is committed, the other is decided. A caller that needs an
order waits for its reply first; there is no order between callers.

This is not `GroupCommit`, which writes one batch at a time from one queue: here each tenant has a
queue, and several calls are under way.

A call is answered as a whole. Where several tenants send, each call therefore contains messages of
one tenant only, is short, and tenants take turns; light requests get separate calls.
"""

import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from actors.messaging.shard_messages import (
    RECORD_MESSAGES,
    ShardMessage,
    ShardReply,
    decode_replies,
    encode_batch,
)
from core.shared.errors import OverloadedError, UnavailableError
from core.shared.tenant_share import SharedLimit
from core.waits.messages import Offer, Register
from services.shared.process import BackgroundTasks, PendingRequest

CallActor: TypeAlias = Callable[[bytes], Awaitable[bytes]]

_ALL_TENANTS = 0
# The approximate memory of a message without its payload.
MESSAGE_BYTES = 300
MAX_CALLS_UNDER_WAY = 2
# A call has a fixed cost: a second one beside the first must carry this many messages.
MIN_EXTRA_CALL_MESSAGES = 64
BATCH_MESSAGES = 1_000
BATCH_BYTES = 4 * 1024 * 1024
# A request is sent whole; a heavier one is split.
MAX_REQUEST_BYTES = 32 * 1024 * 1024
QUEUE_BYTES = 128 * 1024 * 1024
# A shard handles a call in one go, so where several tenants send, a call carries at most this
# much, or one request.
MESSAGES_BESIDE_OTHERS = 128
BYTES_BESIDE_OTHERS = 512 * 1024
# There, a request up to this size overtakes larger ones, unless its tenant has so many queued.
LIGHT_MESSAGES = 16
LIGHT_BYTES = 16 * 1024
LIGHT_QUEUED = 64
# A tenant's first light requests leave at once, the next ones gather until those are answered.
LIGHT_FIRST = 4
LIGHT_CALLS = 16
# When no call has begun for so many seconds, those under way hang, and one more is tried.
HANGS_AFTER = 1.0
MAX_CALLS = 20


def weigh(messages: Sequence[ShardMessage]) -> int:
    """Estimate the bytes that messages take in memory."""
    offered = [len(message.payload) for message in messages if isinstance(message, Offer)]
    size = sum(offered) + MESSAGE_BYTES * len(messages)
    if len(offered) < len(messages):
        registered = (message for message in messages if isinstance(message, Register))
        size += sum([len(message.spec) + len(message.asked) for message in registered])
        size += sum([one.weight for one in messages if isinstance(one, RECORD_MESSAGES)])
    return size


class SendRequest(PendingRequest[list[ShardReply]]):
    """Messages of one caller to one actor.

    They count for the tenant of the first message: only internal callers mix tenants.
    """

    __slots__ = ("messages", "tenant", "weight")

    def __init__(self, messages: list[ShardMessage]) -> None:
        super().__init__()
        self.messages = messages
        self.tenant = messages[0].address.tenant
        self.weight = weigh(messages)


class SendQueue:
    """Queued requests by tenant, with tenants taking turns, and the number of calls under way."""

    __slots__ = ("_queues", "began", "calls", "messages")

    def __init__(self) -> None:
        self._queues: dict[int, deque[SendRequest]] = {}
        self.messages = 0
        self.calls = 0
        # When the last call began, by the monotonic clock.
        self.began = 0.0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[SendRequest]:
        return (request for queue in self._queues.values() for request in queue)

    def append(self, owner: int, request: SendRequest) -> None:
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = deque()
        queue.append(request)
        self.messages += len(request.messages)

    def take(self, max_messages: int, max_bytes: int) -> list[SendRequest]:
        """Take requests of the tenant whose turn it is, at least one; the next tenant follows."""
        owner = next(iter(self._queues))
        queue = self._queues.pop(owner)
        requests: list[SendRequest] = []
        messages = weight = 0
        while queue:
            request = queue[0]
            messages += len(request.messages)
            weight += request.weight
            if requests and (messages > max_messages or weight > max_bytes):
                break
            requests.append(queue.popleft())
            self.messages -= len(request.messages)
        if queue:
            self._queues[owner] = queue
        return requests


class Batcher:
    """Sends the messages that were queued since the last call, in order."""

    def __init__(self, call: CallActor, limit: int, max_bytes: int = QUEUE_BYTES) -> None:
        self._call = call
        self._limit = limit
        self._queue = SendQueue()
        self._light = SendQueue()
        # Light requests that are not answered yet, by tenant.
        self._light_requests: Counter[int] = Counter()
        self._queued = SharedLimit(limit, whole_if_alone=True)
        self._bytes = SharedLimit(max_bytes, whole_if_alone=True)
        self._tasks = BackgroundTasks()

    def put(self, request: SendRequest) -> None:
        """Queue a request.

        Raises:
            OverloadedError: Too many messages or bytes are queued, in all or of this tenant.
        """
        tenant, count, now = request.tenant, len(request.messages), time.monotonic()
        queued, size = self._queued, self._bytes
        has_share = queued.fits(tenant, count, now) and size.fits(tenant, request.weight, now)
        if not has_share or count > self._limit:
            is_full = queued.taken + count > self._limit
            whose = "" if is_full else " of this tenant"
            raise OverloadedError(f"too many messages{whose} are queued for this shard")
        queued.take(tenant, count)
        size.take(tenant, request.weight)
        if queued.is_contested(now) and self._is_light(request):
            self._put_light(request, now)
            return
        queue = self._queue
        queue.append(tenant, request)
        is_worth_a_call = queue.messages >= MIN_EXTRA_CALL_MESSAGES
        self._start_if_due(queue, now, MAX_CALLS_UNDER_WAY, is_worth_a_call)

    def _is_light(self, request: SendRequest) -> bool:
        return (
            len(request.messages) <= LIGHT_MESSAGES
            and request.weight <= LIGHT_BYTES
            and self._queued.held_by(request.tenant) <= LIGHT_QUEUED
        )

    def _put_light(self, request: SendRequest, now: float) -> None:
        queue = self._light
        queue.append(_ALL_TENANTS, request)
        self._light_requests[request.tenant] += 1
        is_among_first = self._light_requests[request.tenant] <= LIGHT_FIRST
        is_worth_a_call = is_among_first or queue.messages >= MIN_EXTRA_CALL_MESSAGES
        self._start_if_due(queue, now, LIGHT_CALLS, is_worth_a_call)

    def _start_if_due(
        self, queue: SendQueue, now: float, max_calls: int, is_worth_a_call: bool
    ) -> None:
        if (
            not queue.calls
            or (queue.calls < max_calls and is_worth_a_call)
            or (now - queue.began > HANGS_AFTER and queue.calls < MAX_CALLS)
        ):
            queue.calls += 1
            queue.began = now
            self._tasks.start(self._drain(queue))

    @property
    def max_messages(self) -> int:
        is_contested = self._queued.is_contested(time.monotonic())
        return MESSAGES_BESIDE_OTHERS if is_contested else sys.maxsize

    @property
    def idle(self) -> bool:
        return not (self._queued.taken or self._queue.calls or self._light.calls)

    async def close(self) -> None:
        await self._tasks.close()
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
            # Not in a callback: a caller that sends again as soon as it is answered runs before
            # callbacks do, and would rely on a task that has already ended.
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
            requests = queue.take(MESSAGES_BESIDE_OTHERS, BYTES_BESIDE_OTHERS)
        else:
            requests = queue.take(BATCH_MESSAGES, BATCH_BYTES)
        for request in requests:
            self._queued.release(request.tenant, len(request.messages))
            self._bytes.release(request.tenant, request.weight)
        # An abandoned request was never sent, and no caller waits for it.
        abandoned = [request for request in requests if request.abandoned]
        if not abandoned:
            return requests
        if queue is self._light:
            self._answered(abandoned)
        return [request for request in requests if not request.abandoned]

    def _answered(self, light: list[SendRequest]) -> None:
        for request in light:
            self._light_requests[request.tenant] -= 1
            if not self._light_requests[request.tenant]:
                del self._light_requests[request.tenant]
