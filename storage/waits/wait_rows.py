"""Converts rows to waits, log entries and events. Only this module knows the columns' formats."""

import asyncpg
import msgspec

from core.shared.address import Address
from core.waits.messages import Difference
from core.waits.spec import decode_spec, placeholder_spec
from core.waits.state import EventState, ParkedEvent, Wait, WaitLogEntry
from core.waits.strategy import Ending

_marks = msgspec.json.Decoder(tuple[EventState, ...])
_ending = msgspec.json.Decoder(Ending)
_clause = msgspec.json.Decoder(Difference)
_encode = msgspec.json.Encoder().encode


def wait_of(row: asyncpg.Record) -> Wait:
    marks = _marks.decode(row["marks"])
    is_lost = row["spec"] is None
    return Wait(
        address=address_of(row),
        node_id=row["node_id"],
        spec=placeholder_spec(row["spec_id"], len(marks)) if is_lost else decode_spec(row["spec"]),
        registered_by=row["registered_by"],
        opened_at=row["opened_at"],
        # Without a spec, the wait ends at its next deadline, whichever that is.
        expires_at=row["due_at"] if is_lost else row["expires_at"],
        version=row["version"],
        marks=marks,
        log_length=row["log_length"],
        ending=_ending.decode(row["ending"]) if row["ending"] else None,
    )


def parked_of(row: asyncpg.Record) -> ParkedEvent:
    clause = _clause.decode(row["clause"]) if row["clause"] else None
    return msgspec.convert({**row, "address": address_of(row), "clause": clause}, ParkedEvent)


def entry_of(row: asyncpg.Record) -> WaitLogEntry:
    return msgspec.convert(dict(row), WaitLogEntry)


def address_of(row: asyncpg.Record) -> Address:
    """Return the address of a row; its ids are empty for an event without ids."""
    return Address(row["tenant_id"], row["execution_id"] or "", row["correlation_id"] or "")


def json_of(value: msgspec.Struct | tuple[EventState, ...] | None) -> str | None:
    """Encode state as the JSON text of its column."""
    return None if value is None else _encode(value).decode()
