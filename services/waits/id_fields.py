"""Which names a tenant's senders use for the two ids, beside the default ones."""

import time
from collections.abc import Awaitable, Callable, Iterable

from core.shared.errors import InvalidError
from core.waits.spec import DEFAULT_IDS, IdFields
from services.shared.cache import Cache

TTL = 10.0
# Each callback looks under all of them.
LIMIT = 100

CreateIdFields = Callable[[int, IdFields], Awaitable[None]]


class IdFieldRegistry:
    """Known id names by tenant. They are only ever added, so an old answer is merely short."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[list[IdFields]]],
        create: CreateIdFields,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._create = create
        self._known = Cache(read, ttl=lambda _: TTL, monotonic=monotonic)

    def forget(self) -> None:
        """Ask again: the database may have been put back, and know fewer."""
        self._known.clear()

    async def known(self, tenant: int) -> list[IdFields]:
        """The names as far as this replica has heard."""
        return await self._known.get(tenant)

    async def current(self, tenant: int) -> list[IdFields]:
        """The names as Postgres has them now."""
        return await self._known.refresh(tenant)

    async def remember(self, tenant: int, used: Iterable[IdFields]) -> None:
        """Store names that are new, before the first wait with them is acknowledged."""
        wanted = set(used) - {DEFAULT_IDS}
        if not wanted or wanted <= set(await self.known(tenant)):
            return
        known = set(await self.current(tenant))
        if len(known | wanted) > LIMIT:
            raise InvalidError(
                "data", f"this tenant uses {len(known)} sets of id names; {LIMIT} is the most"
            )
        for fields in wanted - known:
            await self._create(tenant, fields)
        self._known.forget(tenant)
