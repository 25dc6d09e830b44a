"""Caches which subscriptions match an event type, so that events need no query."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from core.dispatch.job import ANCHOR
from core.dispatch.subscription import Subscription, candidate_patterns
from services.shared.cache import Cache

TTL = 300.0
MAX_ENTRIES = 10_000

ReadSubscriptions: TypeAlias = Callable[[int, Sequence[str]], Awaitable[Sequence[Subscription]]]


class SubscriptionCache:
    """Subscriptions by tenant and event type. Notifications of changes clear it."""

    def __init__(self, matching: ReadSubscriptions, monotonic: Callable[[], float]) -> None:
        self._matching = matching
        self._found = Cache(
            self._read, ttl=lambda _found: TTL, monotonic=monotonic, limit=MAX_ENTRIES
        )

    async def matching(self, tenant: int, type_: str) -> tuple[Subscription, ...]:
        """Return active subscriptions with a binding on the type, of the tenant and the anchor.

        They contain only the bindings that name the type. Versions and filters are checked per
        event.
        """
        return await self._found.get((tenant, type_))

    def clear(self, tenant: int | None = None) -> None:
        """Read subscriptions again after a change, of one tenant or of all."""
        if tenant in (None, ANCHOR):  # the anchor's subscriptions get events of all tenants
            self._found.clear()
        else:
            self._found.forget_where(lambda key: key[0] == tenant)

    async def _read(self, key: tuple[int, str]) -> tuple[Subscription, ...]:
        tenant, type_ = key
        return tuple(await self._matching(tenant, candidate_patterns(type_)))
