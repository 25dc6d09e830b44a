"""Who wants which events, remembered: each event would ask Postgres otherwise."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Subscription, candidate_patterns
from services.shared.cache import Cache

TTL = 300.0
MAX_ENTRIES = 10_000

ReadSubscriptions: TypeAlias = Callable[[int, Sequence[str]], Awaitable[Sequence[Subscription]]]


class SubscriptionCache:
    """Subscriptions by the tenant and the type of an event. Notices of changes clear it."""

    def __init__(self, matching: ReadSubscriptions, monotonic: Callable[[], float]) -> None:
        self._matching = matching
        self._found = Cache(
            self._read, ttl=lambda _found: TTL, monotonic=monotonic, limit=MAX_ENTRIES
        )

    async def matching(self, tenant: int, type_: str) -> tuple[Subscription, ...]:
        """Those that have a binding on the type and are active: the tenant's and the anchor's.

        Of their bindings, only those that name the type. Versions and filters are for each event.
        """
        return await self._found.get((tenant, type_))

    def clear(self, tenant: int | None = None) -> None:
        """Something has changed: ask again, if it is one tenant's only for that one's events."""
        if tenant in (None, ANCHOR):  # whose subscriptions take everybody's
            self._found.clear()
        else:
            self._found.forget_where(lambda key: key[0] == tenant)

    async def _read(self, key: tuple[int, str]) -> tuple[Subscription, ...]:
        tenant, type_ = key
        return tuple(await self._matching(tenant, candidate_patterns(type_)))
