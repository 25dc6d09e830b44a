"""What waits in a shard, in number and in bytes: so much in all, and a share of it per tenant."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from core.shared.tenant_share import SharedLimit
from core.waits.messages import Offer, RefusalKind, RefusedReply, Register, WaitMessage

# About what a message takes beside what it carries.
MESSAGE_BYTES = 300

TenantLoads: TypeAlias = dict[int, tuple[int, int]]
"""Messages and bytes by tenant."""

BEHIND = RefusedReply(kind=RefusalKind.OVERLOADED, detail="this shard is behind; slow down")
SHARE_TAKEN = RefusedReply(
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

    def admit(
        self, messages: Sequence[WaitMessage], now: float
    ) -> tuple[TenantLoads, dict[int, RefusedReply]]:
        """Take in what fits, tenant by tenant.

        Returns what was taken, to be given to `release`, and for each tenant whose messages do not
        fit what to tell it.
        """
        taken: TenantLoads = {}
        refused: dict[int, RefusedReply] = {}
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


def loads_of(messages: Sequence[WaitMessage]) -> TenantLoads:
    """Add up messages and bytes by tenant."""
    tenants = {message.address.tenant for message in messages}
    if len(tenants) == 1:  # as almost always, and this is for every message
        return {tenants.pop(): _load_of(messages)}
    by_tenant: dict[int, list[WaitMessage]] = {tenant: [] for tenant in tenants}
    for message in messages:
        by_tenant[message.address.tenant].append(message)
    return {tenant: _load_of(own) for tenant, own in by_tenant.items()}


def _load_of(messages: Sequence[WaitMessage]) -> tuple[int, int]:
    offered = [len(message.payload) for message in messages if isinstance(message, Offer)]
    size = sum(offered) + MESSAGE_BYTES * len(messages)
    if len(offered) < len(messages):
        registered = (message for message in messages if isinstance(message, Register))
        size += sum([len(message.spec) + len(message.asked) for message in registered])
    return len(messages), size
