"""From what a sender sent to an offer: which correlation is it for, and what is its data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from actors.gateway import Gateway
from actors.process import mint
from core.address import Address, check_id
from core.errors import ForbiddenError
from core.intake import Ids, MissingId, ids_of, stripped
from core.messages import Offer, Reason, Verdict
from core.paths import MISSING, find
from core.spec import DEFAULT_IDS, IdFields, Source
from core.wait import Parked
from serve_app.auth import Caller
from serve_app.database import Database
from serve_app.faults import Fault
from serve_app.problems import Problem
from serve_app.profiles import Profiles
from storage import journal, waits
from storage.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An event as it came. Header names are in lower case."""

    source: Source
    label: str
    raw: bytes
    body: Any
    headers: Mapping[str, str]
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unaddressed:
    """An event without an id: how it is kept, and what its sender is told."""

    parked: Parked
    problem: Problem


class Intake:
    """Finds the correlation that an event is for."""

    def __init__(self, gateway: Gateway, database: Database, profiles: Profiles) -> None:
        self._gateway = gateway
        self._database = database
        self._profiles = profiles

    async def address(self, caller: Caller, arrival: Arrival) -> Offer | Unaddressed:
        """The offer to make, or what is missing for one."""
        turn_id = mint()
        event_id = event_id_of(arrival, turn_id)
        if caller.address is not None:
            fields = await self._fields_of_holder(caller.address, arrival)
            return _offer(caller.address, fields, arrival, turn_id, event_id)
        found = await self._ids(caller.tenant, arrival)
        if isinstance(found, MissingId):
            parked = self._unplaced(caller.tenant, arrival, turn_id, event_id)
            return Unaddressed(parked, missing_id(found))
        chosen = await self._choose(caller.tenant, found)
        address = Address(caller.tenant, chosen.execution_id, chosen.correlation_id)
        return _offer(address, chosen.fields, arrival, turn_id, event_id)

    async def park(self, events: Sequence[Unaddressed]) -> None:
        """Keep events without ids in the inbox, before their senders are told."""
        if not events:
            return
        parked = [(b"", event.parked) for event in events]
        await self._database.ask(_park, parked, self._gateway.config.early_ttl)

    async def _ids(self, tenant: int, arrival: Arrival) -> list[Ids] | MissingId:
        known = await self._profiles.known(tenant)
        found = ids_of(arrival.headers, arrival.body, known)
        if isinstance(found, MissingId):
            # Another replica may have registered a wait with names that are new to us.
            current = await self._profiles.current(tenant)
            found = ids_of(arrival.headers, arrival.body, current)
        return found

    async def _choose(self, tenant: int, pairs: list[Ids]) -> Ids:
        """Several names may lead to ids: the pair that somebody waits for is meant."""
        if len(pairs) == 1:
            return pairs[0]
        keys = [Address(tenant, pair.execution_id, pair.correlation_id).key for pair in pairs]
        loaded = await self._database.ask(waits.load, keys)
        awaited = (pair for pair, key in zip(pairs, keys, strict=True) if loaded[key].wait)
        return next(awaited, pairs[0])

    async def _fields_of_holder(self, address: Address, arrival: Arrival) -> IdFields:
        """The names under which a token's holder repeats the ids; it must not name others."""
        profiles = [DEFAULT_IDS, *await self._profiles.known(address.tenant)]
        suspects = [fields for fields in profiles if _contradicts(arrival, fields, address)]
        if suspects:
            # What looks like an id is one only if this very wait is configured so.
            seen = await self._database.ask(waits.read, address)
            own = {event.ids for event in seen.wait.spec.events} if seen else {DEFAULT_IDS}
            if own.intersection(suspects):
                raise ForbiddenError("the ids in this request are not the ones its token is for")
        return next((f for f in profiles if _repeats(arrival, f, address)), DEFAULT_IDS)

    def _unplaced(self, tenant: int, arrival: Arrival, turn_id: str, event_id: str) -> Parked:
        return Parked(
            address=Address(tenant, "", ""),
            turn_id=turn_id,
            event_id=event_id,
            source=arrival.source,
            label=arrival.label,
            payload=arrival.raw,
            content_type="application/json",
            verdict=Verdict.REJECTED,
            reason=Reason.MISSING_ID,
            clause=None,
            at=self._gateway.clock.now(),
        )


async def _park(pool: Pool, parked: list[tuple[bytes, Parked]], early_ttl: float) -> None:
    async with pool.acquire() as conn:
        await journal.park(conn, parked, early_ttl)


def event_id_of(arrival: Arrival, turn_id: str) -> str:
    """The id an event is deduplicated by: the sender's own, or one for this request."""
    path = "api" if arrival.source is Source.API else "http"
    return f"{path}/{arrival.label}/{arrival.event_id or turn_id}"


def missing_id(missing: MissingId) -> Problem:
    """Name what is missing and where it was looked for."""
    places = " and ".join(missing.looked_in)
    if missing.found is None:
        detail = f"{missing.name} is missing: looked in {places}"
    else:
        detail = f"{missing.name} cannot be an id: found a {missing.found} in {places}"
    fault = Fault(missing.name, f"an id in {' or '.join(missing.looked_in)}", missing.found)
    return Problem(status=400, code="missing_id", detail=detail, faults=(fault,))


def _offer(
    address: Address, fields: IdFields, arrival: Arrival, turn_id: str, event_id: str
) -> Offer:
    cleaned = stripped(arrival.body, fields)
    return Offer(
        address=address,
        turn_id=turn_id,
        event_id=event_id,
        source=arrival.source,
        label=arrival.label,
        # Data without ids in it is kept as it came, to the byte.
        payload=arrival.raw if cleaned == arrival.body else msgspec.json.encode(cleaned),
    )


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
