"""Which correlation an event is for: its ids by the names its tenant uses."""

from collections.abc import Awaitable, Callable, Sequence

from actors.profiles import Profiles
from core.address import Address
from core.arrival import Arrival
from core.intake import Ids, MissingId, ids_of
from storage.waits import Loaded

Load = Callable[[Sequence[bytes]], Awaitable[dict[bytes, Loaded]]]


class Addressing:
    """Finds ids under default and configured names."""

    def __init__(self, profiles: Profiles, load: Load) -> None:
        self._profiles = profiles
        self._load = load

    async def find(self, tenant: int, arrival: Arrival) -> Ids | MissingId:
        """The ids that are meant, or what is missing for them."""
        found = ids_of(arrival.headers, arrival.body, await self._profiles.known(tenant))
        if isinstance(found, MissingId):
            # Another process may have registered a wait with names that are new to this one.
            current = await self._profiles.current(tenant)
            found = ids_of(arrival.headers, arrival.body, current)
        if isinstance(found, MissingId):
            return found
        return found[0] if len(found) == 1 else await self._choose(tenant, found)

    async def _choose(self, tenant: int, pairs: list[Ids]) -> Ids:
        """Several names may lead to ids: the pair that somebody waits for is meant."""
        keys = [Address(tenant, pair.execution_id, pair.correlation_id).key for pair in pairs]
        loaded = await self._load(keys)
        awaited = (pair for pair, key in zip(pairs, keys, strict=True) if loaded[key].wait)
        return next(awaited, pairs[0])
