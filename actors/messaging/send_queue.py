"""What waits to be sent to one target: parcels, and whose turn it is."""

import asyncio
from collections import deque
from collections.abc import Iterator

from actors.messaging.pending import MESSAGE_BYTES
from core.waits.messages import Offer, Register, Reply, WaitMessage


def weight_of(message: WaitMessage) -> int:
    """About how many bytes it takes."""
    if isinstance(message, Offer):
        return MESSAGE_BYTES + len(message.payload)
    if isinstance(message, Register):
        return MESSAGE_BYTES + len(message.spec) + len(message.asked)
    return MESSAGE_BYTES


class SendRequest:
    """Messages that one caller sends to one target, and where their answers go.

    They count as those of the first one's tenant: only the product itself mixes tenants.
    """

    __slots__ = ("future", "messages", "tenant", "weight")

    def __init__(self, messages: list[WaitMessage]) -> None:
        self.messages = messages
        self.tenant = messages[0].address.tenant
        self.weight = sum([weight_of(message) for message in messages])
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


class SendQueue:
    """Queues of parcels that take turns, and how many calls of them are under way."""

    __slots__ = ("_queues", "began", "calls", "messages")

    def __init__(self) -> None:
        self._queues: dict[int, deque[SendRequest]] = {}
        self.messages = 0
        """How many wait."""
        self.calls = 0
        """How many are under way."""
        self.began = 0.0
        """When the last call began, by a clock that never jumps."""

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._queues)

    def __iter__(self) -> Iterator[SendRequest]:
        """Everything that waits."""
        return (request for queue in self._queues.values() for request in queue)

    def append(self, owner: int, request: SendRequest) -> None:
        """Let a parcel wait behind the others of its owner."""
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = deque()
        queue.append(request)
        self.messages += len(request.messages)

    def take(self, max_messages: int, max_bytes: int) -> list[SendRequest]:
        """Take what fits of the owner whose turn it is, at least one; then it is another's turn."""
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
