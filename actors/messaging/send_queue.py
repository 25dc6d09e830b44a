"""What waits to be sent to one target: parcels, and whose turn it is."""

import asyncio
from collections import deque
from collections.abc import Iterator

from actors.messaging.pending import MESSAGE_BYTES
from core.waits.messages import Message, Offer, Register, Reply


def weight_of(message: Message) -> int:
    """About how many bytes it takes."""
    if isinstance(message, Offer):
        return MESSAGE_BYTES + len(message.payload)
    if isinstance(message, Register):
        return MESSAGE_BYTES + len(message.spec) + len(message.asked)
    return MESSAGE_BYTES


class Parcel:
    """Messages that one caller sends to one target, and where their answers go.

    They count as those of the first one's tenant: only the product itself mixes tenants.
    """

    __slots__ = ("future", "messages", "tenant", "weight")

    def __init__(self, messages: list[Message]) -> None:
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


class SendLane:
    """Queues of parcels that take turns, and how many calls of them are under way."""

    __slots__ = ("_queues", "began", "calls", "messages")

    def __init__(self) -> None:
        self._queues: dict[int, deque[Parcel]] = {}
        self.messages = 0
        """How many wait."""
        self.calls = 0
        """How many are under way."""
        self.began = 0.0
        """When the last call began, by a clock that never jumps."""

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._queues)

    def __iter__(self) -> Iterator[Parcel]:
        """Everything that waits."""
        return (parcel for queue in self._queues.values() for parcel in queue)

    def append(self, owner: int, parcel: Parcel) -> None:
        """Let a parcel wait behind the others of its owner."""
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = deque()
        queue.append(parcel)
        self.messages += len(parcel.messages)

    def take(self, most_messages: int, most_bytes: int) -> list[Parcel]:
        """Take what fits of the owner whose turn it is, at least one; then it is another's turn."""
        owner = next(iter(self._queues))
        queue = self._queues.pop(owner)
        parcels: list[Parcel] = []
        messages = weight = 0
        while queue:
            parcel = queue[0]
            messages += len(parcel.messages)
            weight += parcel.weight
            if parcels and (messages > most_messages or weight > most_bytes):
                break
            parcels.append(queue.popleft())
            self.messages -= len(parcel.messages)
        if queue:
            self._queues[owner] = queue
        return parcels
