"""Rows to domain objects and back. The only place that knows how state is spelled in Postgres."""

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
    """The correlation that a row describes."""
    marks = _marks.decode(row["marks"])
    is_lost = row["spec"] is None
    return Wait(
        address=address_of(row),
        node_id=row["node_id"],
        spec=placeholder_spec(row["spec_id"], len(marks)) if is_lost else decode_spec(row["spec"]),
        registered_by=row["registered_by"],
        opened_at=row["opened_at"],
        # Which of its deadlines comes next is not known without a spec: then it ends.
        expires_at=row["due_at"] if is_lost else row["expires_at"],
        version=row["version"],
        marks=marks,
        log_length=row["log_length"],
        ending=_ending.decode(row["ending"]) if row["ending"] else None,
    )


def parked_of(row: asyncpg.Record) -> ParkedEvent:
    """The event that an inbox row keeps."""
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
    """One line of a log."""
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
    """Whose row it is. An event without ids has empty ones."""
    return Address(row["tenant_id"], row["execution_id"] or "", row["correlation_id"] or "")


def json_of(value: msgspec.Struct | tuple[EventState, ...] | None) -> str | None:
    """State as the JSON text its column takes."""
    return None if value is None else _encode(value).decode()
