"""Messages that a shard has not answered yet, limited in number and bytes and per tenant."""

from collections.abc import Sequence
from typing import TypeAlias

from actors.messaging.batcher import weigh
from actors.messaging.shard_messages import ShardMessage
from core.shared.tenant_share import SharedLimit
from core.waits.messages import RefusalKind, RefusedReply

TenantLoads: TypeAlias = dict[int, tuple[int, int]]
"""Messages and bytes by tenant."""

BEHIND = RefusedReply(
    kind=RefusalKind.OVERLOADED, detail="this shard has too many messages to handle; slow down"
)
SHARE_TAKEN = RefusedReply(
    kind=RefusalKind.OVERLOADED,
    detail="this tenant has used its share of this shard's queue; slow down",
)


class PendingMessages:
    """Counts the messages that a shard has accepted and not answered."""

    def __init__(self, messages: int, size: int) -> None:
        self._limit = messages
        self._messages = SharedLimit(messages, whole_if_alone=True)
        self._bytes = SharedLimit(size, whole_if_alone=True)

    def __len__(self) -> int:
        return self._messages.taken

    @property
    def size(self) -> int:
        return self._bytes.taken

    def is_contested(self, now: float) -> bool:
        return self._messages.is_contested(now)

    def admit(
        self, messages: Sequence[ShardMessage], now: float
    ) -> tuple[TenantLoads, dict[int, RefusedReply]]:
        """Admit the messages of each tenant that fit.

        Return what was admitted, for `release`, and a refusal for each tenant whose messages do not
        fit.
        """
        admitted: TenantLoads = {}
        refused: dict[int, RefusedReply] = {}
        for tenant, (count, size) in loads_of(messages).items():
            has_share = self._messages.fits(tenant, count, now)
            if has_share and count <= self._limit and self._bytes.fits(tenant, size, now):
                self._messages.take(tenant, count)
                self._bytes.take(tenant, size)
                admitted[tenant] = (count, size)
            else:
                is_full = self._messages.taken + count > self._limit
                refused[tenant] = BEHIND if is_full else SHARE_TAKEN
        return admitted, refused

    def release(self, loads: TenantLoads) -> None:
        for tenant, (count, size) in loads.items():
            self._messages.release(tenant, count)
            self._bytes.release(tenant, size)


def loads_of(messages: Sequence[ShardMessage]) -> TenantLoads:
    tenants = {message.address.tenant for message in messages}
    if len(tenants) == 1:  # the usual case, and this runs for every batch
        return {tenants.pop(): (len(messages), weigh(messages))}
    by_tenant: dict[int, list[ShardMessage]] = {tenant: [] for tenant in tenants}
    for message in messages:
        by_tenant[message.address.tenant].append(message)
    return {tenant: (len(own), weigh(own)) for tenant, own in by_tenant.items()}
