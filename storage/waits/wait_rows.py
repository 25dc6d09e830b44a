"""Converts rows to waits, log entries and events. Only this module knows the columns' formats."""

import asyncpg
import msgspec

from core.shared.address import Address
from core.waits.messages import Difference, Reason, Verdict
from core.waits.spec import Source, decode_spec, placeholder_spec
from core.waits.state import EventState, ParkedEvent, Wait, WaitLogEntry
from core.waits.strategy import Ending, Outcome

_marks = msgspec.json.Decoder(tuple[EventState, ...])
_ending = msgspec.json.Decoder(Ending)
_clause = msgspec.json.Decoder(Difference)
_encode = msgspec.json.Encoder().encode


def wait_of(row: asyncpg.Record) -> Wait:
    """Convert a row to a wait."""
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
    """Convert an inbox row to an event."""
    return ParkedEvent(
        address=address_of(row),
        turn_id=row["turn_id"],
        event_id=row["event_id"],
        source=Source(row["source"]),
        label=row["label"],
        payload=row["payload"],
        content_type=row["content_type"],
        outcome=Outcome(row["outcome"]),
        verdict=Verdict(row["verdict"]),
        reason=Reason(row["reason"]),
        clause=_clause.decode(row["clause"]) if row["clause"] else None,
        at=row["at"],
    )


def entry_of(row: asyncpg.Record) -> WaitLogEntry:
    """Convert a row to a log entry."""
    return WaitLogEntry(
        seq=row["seq"],
        kind=row["kind"],
        event=row["event"],
        event_id=row["event_id"],
        source=Source(row["source"]) if row["source"] else None,
        label=row["label"],
        payload=row["payload"],
        content_type=row["content_type"],
        at=row["at"],
    )


def address_of(row: asyncpg.Record) -> Address:
    """Return the address of a row; its ids are empty for an event without ids."""
    return Address(row["tenant_id"], row["execution_id"] or "", row["correlation_id"] or "")


def json_of(value: msgspec.Struct | tuple[EventState, ...] | None) -> str | None:
    """Encode state as the JSON text of its column."""
    return None if value is None else _encode(value).decode()
