"""From what a sender sent to an offer: which correlation is it for, and what is its data."""

from collections.abc import Sequence
from dataclasses import dataclass

from actors.client import Gateway
from actors.runtime.actor import mint
from core.shared.address import Address, check_id
from core.shared.errors import ForbiddenError
from core.shared.json_path import MISSING, find
from core.shared.usage_counter import UsageCounter
from core.waits.correlation_ids import Ids, MissingId
from core.waits.incoming_event import Arrival, offer_of, unplaced
from core.waits.messages import Offer
from core.waits.spec import DEFAULT_IDS, IdFields
from core.waits.state import Parked
from serve_app.http.auth import TOKEN_SCOPE, Caller
from serve_app.http.field_errors import Fault
from serve_app.http.problems import Problem
from services.shared.database import Database
from services.waits.correlation_resolver import Addressing
from services.waits.id_fields import Profiles
from storage.access.usage_counts import count_parked
from storage.postgres.pool import Pool
from storage.waits import flush, waits


@dataclass(frozen=True, slots=True)
class Unaddressed:
    """An event without an id: how it is kept, and what its sender is told."""

    parked: Parked
    problem: Problem


class Intake:
    """Finds the correlation that an event is for."""

    def __init__(
        self,
        gateway: Gateway,
        database: Database,
        profiles: Profiles,
        usage: UsageCounter | None = None,
    ) -> None:
        self._gateway = gateway
        self._usage = usage or UsageCounter()
        self._database = database
        self._profiles = profiles
        self._addressing = Addressing(profiles, database.asker(waits.load_waits))

    async def address(self, caller: Caller, arrival: Arrival) -> Offer | Unaddressed:
        """The offer to make, or what is missing for one."""
        if caller.address is not None:
            caller.check_source(arrival.label)
            return await self._address_of_holder(caller.address, arrival)
        return self._placed(
            caller.tenant, arrival, await self._addressing.find(caller.tenant, arrival)
        )

    async def address_all(
        self, caller: Caller, arrivals: Sequence[Arrival]
    ) -> list[Offer | Unaddressed]:
        """The same for many of one caller."""
        if caller.address is not None:
            return [await self.address(caller, one) for one in arrivals]
        found = await self._addressing.find_all(caller.tenant, arrivals)
        return [
            self._placed(caller.tenant, arrival, ids)
            for arrival, ids in zip(arrivals, found, strict=True)
        ]

    async def _address_of_holder(self, address: Address, arrival: Arrival) -> Offer:
        fields = await self._fields_of_holder(address, arrival)
        return offer_of(address, fields, arrival, mint(), by_token=True)

    def _placed(self, tenant: int, arrival: Arrival, ids: Ids | MissingId) -> Offer | Unaddressed:
        turn_id = mint()
        if isinstance(ids, MissingId):
            parked = unplaced(tenant, arrival, turn_id, self._gateway.clock.now())
            return Unaddressed(parked, missing_id(ids))
        address = Address(tenant, ids.execution_id, ids.correlation_id)
        return offer_of(address, ids.fields, arrival, turn_id)

    async def park(self, events: Sequence[Unaddressed]) -> None:
        """Keep events without ids in the inbox, before their senders are told."""
        if not events:
            return
        parked = [(b"", event.parked) for event in events]
        await self._database.ask(park_rows, parked, self._gateway.config.early_ttl)
        count_parked(self._usage, [event.parked for event in events])

    async def _fields_of_holder(self, address: Address, arrival: Arrival) -> IdFields:
        """The names under which a token's holder repeats the ids; it must not name others."""
        profiles = [DEFAULT_IDS, *await self._profiles.known(address.tenant)]
        suspects = [fields for fields in profiles if _contradicts(arrival, fields, address)]
        if suspects:
            # What looks like an id is one only if this very wait is configured so.
            seen = await self._database.ask(waits.read, address)
            own = {event.ids for event in seen.wait.spec.events} if seen else {DEFAULT_IDS}
            if own.intersection(suspects):
                detail = "the ids in this request are not the ones its token is for"
                raise ForbiddenError(detail, TOKEN_SCOPE)
        return next((f for f in profiles if _repeats(arrival, f, address)), DEFAULT_IDS)


async def park_rows(pool: Pool, parked: list[tuple[bytes, Parked]], early_ttl: float) -> None:
    """Keep events in the inbox under the key of their correlation."""
    async with pool.acquire() as conn:
        await flush.park(conn, parked, early_ttl)


def missing_id(missing: MissingId) -> Problem:
    """Name what is missing and where it was looked for."""
    places = " and ".join(missing.looked_in)
    if missing.found is None:
        detail = f"{missing.name} is missing: looked in {places}"
    else:
        detail = f"{missing.name} cannot be an id: found a {missing.found} in {places}"
    fault = Fault(missing.name, f"an id in {' or '.join(missing.looked_in)}", missing.found)
    return Problem(status=400, code="missing_id", detail=detail, faults=(fault,))


def _contradicts(arrival: Arrival, fields: IdFields, address: Address) -> bool:
    correlation, execution = _named(arrival, fields)
    return (correlation is not None and correlation != address.correlation_id) or (
        execution is not None and execution != address.execution_id
    )


def _repeats(arrival: Arrival, fields: IdFields, address: Address) -> bool:
    return address.correlation_id in _named(arrival, fields)


def _named(arrival: Arrival, fields: IdFields) -> tuple[str | None, str | None]:
    return (
        _value(arrival, fields.correlation_header, fields.correlation_field),
        _value(arrival, fields.execution_header, fields.execution_field),
    )


def _value(arrival: Arrival, header: str, path: str) -> str | None:
    value = arrival.headers.get(header.lower(), MISSING)
    return check_id(find(arrival.body, path) if value is MISSING else value)
