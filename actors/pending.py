"""What waits in a shard, in number and in bytes: so much in all, and a share of it per tenant."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from core.messages import Message, Offer, RefusalKind, Refused, Register
from core.tenant_share import SharedLimit

# About what a message takes beside what it carries.
MESSAGE_BYTES = 300

Loads: TypeAlias = dict[int, tuple[int, int]]
"""Messages and bytes by tenant."""

BEHIND = Refused(kind=RefusalKind.OVERLOADED, detail="this shard is behind; slow down")
SHARE_TAKEN = Refused(
    kind=RefusalKind.OVERLOADED,
    detail="this tenant has its share of the messages that wait for this shard; slow down",
)


class PendingMessages:
    """Counts the messages that a shard has taken and not answered."""

    def __init__(self, messages: int, size: int) -> None:
        self._limit = messages
        self._messages = SharedLimit(messages, whole_if_alone=True)
        self._bytes = SharedLimit(size, whole_if_alone=True)

    def __len__(self) -> int:
        """How many there are."""
        return self._messages.taken

    @property
    def size(self) -> int:
        """How many bytes they are."""
        return self._bytes.taken

    def is_contested(self, now: float) -> bool:
        """Return whether more than one tenant has sent something lately."""
        return self._messages.is_contested(now)

    def admit(self, messages: Sequence[Message], now: float) -> tuple[Loads, dict[int, Refused]]:
        """Take in what fits, tenant by tenant.

        Returns what was taken, to be given to `release`, and for each tenant whose messages do not
        fit what to tell it.
        """
        taken: Loads = {}
        refused: dict[int, Refused] = {}
        for tenant, (count, size) in loads_of(messages).items():
            has_share = self._messages.fits(tenant, count, now)
            if has_share and count <= self._limit and self._bytes.fits(tenant, size, now):
                self._messages.take(tenant, count)
                self._bytes.take(tenant, size)
                taken[tenant] = (count, size)
            else:
                is_full = self._messages.taken + count > self._limit
                refused[tenant] = BEHIND if is_full else SHARE_TAKEN
        return taken, refused

    def release(self, loads: Mapping[int, tuple[int, int]]) -> None:
        """These were answered."""
        for tenant, (count, size) in loads.items():
            self._messages.release(tenant, count)
            self._bytes.release(tenant, size)


def loads_of(messages: Sequence[Message]) -> Loads:
    """Add up messages and bytes by tenant."""
    loads: Loads = {}
    for message in messages:
        kind = type(message)
        if kind is Offer:
            size = MESSAGE_BYTES + len(message.payload)  # type: ignore[union-attr]
        elif kind is Register:
            size = MESSAGE_BYTES + len(message.spec) + len(message.asked)  # type: ignore[union-attr]
        else:
            size = MESSAGE_BYTES
        tenant = message.address.tenant
        known = loads.get(tenant)
        loads[tenant] = (1, size) if known is None else (known[0] + 1, known[1] + size)
    return loads
