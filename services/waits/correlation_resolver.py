"""Which correlation an event is for: its ids by the names its tenant uses."""

from collections.abc import Awaitable, Callable, Sequence

from core.shared.address import Address
from core.waits.correlation_ids import CorrelationIds, MissingId, find_ids
from core.waits.incoming_event import IncomingEvent
from core.waits.state import Wait
from services.waits.id_fields import IdFieldRegistry

LoadWaits = Callable[[Sequence[bytes]], Awaitable[dict[bytes, Wait]]]


class CorrelationResolver:
    """Finds ids under default and configured names."""

    def __init__(self, profiles: IdFieldRegistry, load: LoadWaits) -> None:
        self._profiles = profiles
        self._load = load

    async def find(self, tenant: int, arrival: IncomingEvent) -> CorrelationIds | MissingId:
        """The ids that are meant, or what is missing for them."""
        known = await self._profiles.known(tenant)
        found = find_ids(arrival.headers, arrival.body, known)
        if isinstance(found, list) and len(found) == 1:
            return found[0]  # as nearly always
        return (await self.find_all(tenant, [arrival]))[0]

    async def find_all(
        self, tenant: int, arrivals: Sequence[IncomingEvent]
    ) -> list[CorrelationIds | MissingId]:
        """The same for many: names are read anew at most once."""
        known = await self._profiles.known(tenant)
        found = [find_ids(arrival.headers, arrival.body, known) for arrival in arrivals]
        if any(isinstance(one, MissingId) for one in found):
            # Another process may have registered a wait with names that are new to this one.
            current = await self._profiles.current(tenant)
            if current != known:
                found = [find_ids(arrival.headers, arrival.body, current) for arrival in arrivals]
        return [
            one if isinstance(one, MissingId)
            else one[0] if len(one) == 1
            else await self._choose(tenant, one)
            for one in found
        ]  # fmt: skip

    async def _choose(self, tenant: int, pairs: list[CorrelationIds]) -> CorrelationIds:
        """Several names may lead to ids: the pair that somebody waits for is meant."""
        keys = [Address(tenant, pair.execution_id, pair.correlation_id).key for pair in pairs]
        loaded = await self._load(keys)
        awaited = (pair for pair, key in zip(pairs, keys, strict=True) if key in loaded)
        return next(awaited, pairs[0])
