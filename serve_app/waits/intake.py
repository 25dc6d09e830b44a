"""From what a sender sent to an offer: which correlation is it for, and what is its data."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.client import ActorClient
from core.shared.address import Address, check_id
from core.shared.errors import ForbiddenError
from core.shared.json_path import MISSING, find
from core.shared.usage_counter import UsageCounter
from core.waits.correlation_ids import CorrelationIds, MissingId
from core.waits.incoming_event import IncomingEvent, offer_of, unaddressed_event
from core.waits.messages import Offer
from core.waits.spec import DEFAULT_IDS, IdFields
from core.waits.state import ParkedEvent
from serve_app.http.auth import TOKEN_SCOPE, Caller
from serve_app.http.field_errors import FieldError
from serve_app.http.problems import Problem
from services.shared.database import Database
from services.shared.process import new_turn_id
from services.waits.correlation_resolver import CorrelationResolver
from services.waits.id_fields import IdFieldRegistry
from storage.postgres.pool import Pool
from storage.waits import flush, waits
from storage.waits.usage_counts import count_parked


@dataclass(frozen=True, slots=True)
class UnaddressedEvent:
    """An event without an id: how it is kept, and what its sender is told."""

    parked: ParkedEvent
    problem: Problem


class EventIntake:
    """Finds the correlation that an event is for."""

    def __init__(
        self,
        gateway: ActorClient,
        database: Database,
        profiles: IdFieldRegistry,
        usage: UsageCounter | None = None,
    ) -> None:
        self._gateway = gateway
        self._usage = usage or UsageCounter()
        self._database = database
        self._profiles = profiles
        self._addressing = CorrelationResolver(profiles, database.bind(waits.load_waits))

    async def address(self, caller: Caller, arrival: IncomingEvent) -> Offer | UnaddressedEvent:
        """The offer to make, or what is missing for one."""
        if caller.address is not None:
            caller.check_source(arrival.label)
            return await self._address_of_holder(caller.address, arrival)
        return self._placed(
            caller.tenant, arrival, await self._addressing.find(caller.tenant, arrival)
        )

    async def address_all(
        self, caller: Caller, arrivals: Sequence[IncomingEvent]
    ) -> list[Offer | UnaddressedEvent]:
        """The same for many of one caller."""
        if caller.address is not None:
            return [await self.address(caller, one) for one in arrivals]
        found = await self._addressing.find_all(caller.tenant, arrivals)
        return [
            self._placed(caller.tenant, arrival, ids)
            for arrival, ids in zip(arrivals, found, strict=True)
        ]

    async def _address_of_holder(self, address: Address, arrival: IncomingEvent) -> Offer:
        fields = await self._fields_of_holder(address, arrival)
        return offer_of(address, fields, arrival, new_turn_id(), by_token=True)

    def _placed(
        self, tenant: int, arrival: IncomingEvent, ids: CorrelationIds | MissingId
    ) -> Offer | UnaddressedEvent:
        turn_id = new_turn_id()
        if isinstance(ids, MissingId):
            parked = unaddressed_event(tenant, arrival, turn_id, self._gateway.clock.now())
            return UnaddressedEvent(parked, missing_id_problem(ids))
        address = Address(tenant, ids.execution_id, ids.correlation_id)
        return offer_of(address, ids.fields, arrival, turn_id)

    async def park(self, events: Sequence[UnaddressedEvent]) -> None:
        """Keep events without ids in the inbox, before their senders are told."""
        if not events:
            return
        parked = [(b"", event.parked) for event in events]
        await self._database.query(insert_inbox_rows, parked, self._gateway.config.early_ttl)
        count_parked(self._usage, [event.parked for event in events])

    async def _fields_of_holder(self, address: Address, arrival: IncomingEvent) -> IdFields:
        """The names under which a token's holder repeats the ids; it must not name others."""
        profiles = [DEFAULT_IDS, *await self._profiles.known(address.tenant)]
        suspects = [fields for fields in profiles if _contradicts(arrival, fields, address)]
        if suspects:
            # What looks like an id is one only if this very wait is configured so.
            wait_row = await self._database.query(waits.read, address)
            own = {event.ids for event in wait_row.wait.spec.events} if wait_row else {DEFAULT_IDS}
            if own.intersection(suspects):
                detail = "the ids in this request are not the ones its token is for"
                raise ForbiddenError(detail, TOKEN_SCOPE)
        return next((f for f in profiles if _repeats(arrival, f, address)), DEFAULT_IDS)


async def insert_inbox_rows(
    pool: Pool, parked: list[tuple[bytes, ParkedEvent]], early_ttl: float
) -> None:
    """Keep events in the inbox under the key of their correlation."""
    async with pool.acquire() as conn:
        await flush.write_parked(conn, parked, early_ttl)


def missing_id_problem(missing: MissingId) -> Problem:
    """Name what is missing and where it was looked for."""
    places = " and ".join(missing.searched_in)
    if missing.found is None:
        detail = f"{missing.name} is missing: looked in {places}"
    else:
        detail = f"{missing.name} cannot be an id: found a {missing.found} in {places}"
    field_error = FieldError(
        missing.name, f"an id in {' or '.join(missing.searched_in)}", missing.found
    )
    return Problem(status=400, code="missing_id", detail=detail, field_errors=(field_error,))


def _contradicts(arrival: IncomingEvent, fields: IdFields, address: Address) -> bool:
    correlation, execution = _named(arrival, fields)
    return (correlation is not None and correlation != address.correlation_id) or (
        execution is not None and execution != address.execution_id
    )


def _repeats(arrival: IncomingEvent, fields: IdFields, address: Address) -> bool:
    return address.correlation_id in _named(arrival, fields)


def _named(arrival: IncomingEvent, fields: IdFields) -> tuple[str | None, str | None]:
    return (
        _value(arrival, fields.correlation_header, fields.correlation_field),
        _value(arrival, fields.execution_header, fields.execution_field),
    )


def _value(arrival: IncomingEvent, header: str, path: str) -> str | None:
    value = arrival.headers.get(header.lower(), MISSING)
    return check_id(find(arrival.body, path) if value is MISSING else value)
