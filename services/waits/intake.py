"""Finds the correlation of an incoming event: its ids, under the names that the tenant uses."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from core.access.tokens import TOKEN_SCOPE
from core.access.usage_counter import UsageCounter
from core.shared.address import Address, check_id
from core.shared.errors import ForbiddenError, InvalidError
from core.shared.json_path import MISSING, find
from core.waits.incoming_event import (
    CorrelationIds,
    IncomingEvent,
    MissingIds,
    find_ids,
    offer_of,
    unaddressed_event,
)
from core.waits.messages import Offer
from core.waits.spec import DEFAULT_IDS, IdFields
from core.waits.state import ParkedEvent, Wait
from services.shared.cache import Cache
from services.shared.database import Database
from storage.postgres.pool import Pool
from storage.waits import flush, waits
from storage.waits.usage_counts import count_parked

ID_FIELDS_TTL = 10.0
# Limited, because each callback is searched for all of them.
MAX_ID_FIELDS = 100

CreateIdFields = Callable[[int, IdFields], Awaitable[None]]
LoadWaits = Callable[[Sequence[bytes]], Awaitable[dict[bytes, Wait]]]


class IdFieldRegistry:
    """The additional id fields of each tenant, which are never removed."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[list[IdFields]]],
        create: CreateIdFields,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._create = create
        self._known = Cache(read, ttl=lambda _: ID_FIELDS_TTL, monotonic=monotonic)
        self.forget = self._known.clear
        self.known = self._known.get
        self.current = self._known.refresh

    async def remember(self, tenant: int, used: Iterable[IdFields]) -> None:
        """Store id fields that are new, before the first wait with them is acknowledged.

        Raises:
            InvalidError: The tenant would have too many.
        """
        wanted = set(used) - {DEFAULT_IDS}
        if not wanted or wanted <= set(await self.known(tenant)):
            return
        known = set(await self.current(tenant))
        if len(known | wanted) > MAX_ID_FIELDS:
            raise InvalidError(
                "data",
                f"this tenant uses {len(known)} sets of id field names; the most is "
                f"{MAX_ID_FIELDS}: use names that it has already",
            )
        for fields in wanted - known:
            await self._create(tenant, fields)
        self._known.forget(tenant)


class CorrelationResolver:
    """Finds the ids of events under the default and the tenant's own field names."""

    def __init__(self, id_fields: IdFieldRegistry, load: LoadWaits) -> None:
        self._id_fields = id_fields
        self._load = load

    async def find(self, tenant: int, event: IncomingEvent) -> CorrelationIds | MissingIds:
        known = await self._id_fields.known(tenant)
        found = find_ids(event.headers, event.body, known)
        if isinstance(found, list) and len(found) == 1:
            return found[0]  # the usual case
        return (await self.find_all(tenant, [event]))[0]

    async def find_all(
        self, tenant: int, events: Sequence[IncomingEvent]
    ) -> list[CorrelationIds | MissingIds]:
        """Find the ids of many events; field names are read again at most once."""
        known = await self._id_fields.known(tenant)
        found = [find_ids(event.headers, event.body, known) for event in events]
        if any(isinstance(one, MissingIds) for one in found):
            # Another process may have registered a wait with names that are new to this one.
            current = await self._id_fields.current(tenant)
            if current != known:
                found = [find_ids(event.headers, event.body, current) for event in events]
        return [
            one if isinstance(one, MissingIds)
            else one[0] if len(one) == 1
            else await self._choose(tenant, one)
            for one in found
        ]  # fmt: skip

    async def _choose(self, tenant: int, pairs: list[CorrelationIds]) -> CorrelationIds:
        """Choose the pair of ids that a wait has; without any, the first."""
        keys = [Address(tenant, pair.execution_id, pair.correlation_id).key for pair in pairs]
        loaded = await self._load(keys)
        awaited = (pair for pair, key in zip(pairs, keys, strict=True) if key in loaded)
        return next(awaited, pairs[0])


@dataclass(frozen=True, slots=True)
class UnaddressedEvent:
    """An event without an id: its inbox entry, and what is missing."""

    parked: ParkedEvent
    missing: MissingIds


class EventIntake:
    """Turns incoming events into offers to their correlations."""

    def __init__(
        self,
        database: Database,
        id_fields: IdFieldRegistry,
        *,
        now: Callable[[], float],
        new_turn_id: Callable[[], str],
        early_ttl: float,
        usage: UsageCounter | None = None,
    ) -> None:
        self._database = database
        self._id_fields = id_fields
        self._now = now
        self._new_turn_id = new_turn_id
        self._early_ttl = early_ttl
        self._usage = usage or UsageCounter()
        self._resolver = CorrelationResolver(id_fields, database.bind(waits.load_waits))

    async def address(self, tenant: int, event: IncomingEvent) -> Offer | UnaddressedEvent:
        return self._placed(tenant, event, await self._resolver.find(tenant, event))

    async def address_all(
        self, tenant: int, events: Sequence[IncomingEvent]
    ) -> list[Offer | UnaddressedEvent]:
        found = await self._resolver.find_all(tenant, events)
        return [self._placed(tenant, event, ids) for event, ids in zip(events, found, strict=True)]

    async def address_by_token(self, address: Address, event: IncomingEvent) -> Offer:
        """Make the offer of an event whose sender showed the token of one address.

        Raises:
            ForbiddenError: The event names other ids.
        """
        fields = await self._fields_of_holder(address, event)
        return offer_of(address, fields, event, self._new_turn_id(), by_token=True)

    async def park(self, events: Sequence[UnaddressedEvent]) -> None:
        if not events:
            return
        parked = [event.parked for event in events]
        rows = [(b"", event) for event in parked]
        await self._database.query(insert_inbox_rows, rows, self._early_ttl)
        count_parked(self._usage, parked)

    def _placed(
        self, tenant: int, event: IncomingEvent, ids: CorrelationIds | MissingIds
    ) -> Offer | UnaddressedEvent:
        turn_id = self._new_turn_id()
        if isinstance(ids, MissingIds):
            return UnaddressedEvent(unaddressed_event(tenant, event, turn_id, self._now()), ids)
        address = Address(tenant, ids.execution_id, ids.correlation_id)
        return offer_of(address, ids.fields, event, turn_id)

    async def _fields_of_holder(self, address: Address, event: IncomingEvent) -> IdFields:
        """Return the names under which a token's holder repeats the ids of its address."""
        known = [DEFAULT_IDS, *await self._id_fields.known(address.tenant)]
        suspects = [fields for fields in known if contradicts(event, fields, address)]
        if suspects:
            # A value that looks like an id counts only if the wait itself is configured with that
            # field.
            wait_row = await self._database.query(waits.read, address)
            own = {event.ids for event in wait_row.wait.spec.events} if wait_row else {DEFAULT_IDS}
            if own.intersection(suspects):
                detail = "the ids in this request are not the ones its token is for"
                raise ForbiddenError(detail, TOKEN_SCOPE)
        return next((f for f in known if repeats(event, f, address)), DEFAULT_IDS)


async def insert_inbox_rows(
    pool: Pool, parked: list[tuple[bytes, ParkedEvent]], early_ttl: float
) -> None:
    async with pool.acquire() as conn:
        await flush.write_parked(conn, parked, early_ttl)


def contradicts(event: IncomingEvent, fields: IdFields, address: Address) -> bool:
    correlation, execution = _ids_in(event, fields)
    return (correlation is not None and correlation != address.correlation_id) or (
        execution is not None and execution != address.execution_id
    )


def repeats(event: IncomingEvent, fields: IdFields, address: Address) -> bool:
    return address.correlation_id in _ids_in(event, fields)


def _ids_in(event: IncomingEvent, fields: IdFields) -> tuple[str | None, str | None]:
    return (
        _value(event, fields.correlation_header, fields.correlation_field),
        _value(event, fields.execution_header, fields.execution_field),
    )


def _value(event: IncomingEvent, header: str, path: str) -> str | None:
    value = event.headers.get(header.lower(), MISSING)
    return check_id(find(event.body, path) if value is MISSING else value)
