"""Converts records, unique values and changes to the rows of a flush, in column order."""

from typing import Any

from core.records.change_outbox import OutgoingChange
from core.records.record import Record, RecordChange, UniqueValue
from core.shared.entities import Entity


def guard_row(tx: int, record: Record) -> tuple[Any, ...]:
    address = record.address
    place = (address.tenant, address.collection_no, address.record_id)
    return (tx, *place, record.version, record.revision)


def new_record_row(tx: int, record: Record, if_absent: bool) -> tuple[Any, ...]:
    address = record.address
    return (
        tx,
        if_absent,
        address.tenant,
        address.collection_no,
        address.record_id,
        record.version,
        record.text,
        *record.indexed,
        record.created_at,
        record.updated_at,
        record.created_by,
        record.updated_by,
        record.deleted_at,
        record.recent_turns,
    )


def saved_record_row(tx: int, before: Entity, record: Record) -> tuple[Any, ...]:
    address = record.address
    return (
        tx,
        address.tenant,
        address.collection_no,
        address.record_id,
        before.version,
        record.revision,
        record.version,
        record.text,
        *record.indexed,
        record.updated_at,
        record.updated_by,
        record.deleted_at,
        record.recent_turns,
    )


def unique_value_row(tx: int, before: Entity | None, after: UniqueValue) -> tuple[Any, ...] | None:
    """Return the row of a value that changed hands; None if it is where it was."""
    seen = before.record_id if isinstance(before, UniqueValue) else None
    if seen == after.record_id:
        return None
    return (tx, *after.ref.key, seen, after.record_id)


def change_row(tx: int, change: RecordChange) -> tuple[Any, ...]:
    address = change.address
    return (
        tx,
        address.tenant,
        address.collection_no,
        address.record_id,
        change.change_id,
        change.version,
        change.kind,
        change.data,
        change.before,
        change.user_id,
        change.turn_id,
        change.cause,
        change.depth,
        change.at,
    )


def outgoing_row(tx: int, row: OutgoingChange) -> tuple[Any, ...]:
    address = row.address
    return (tx, address.tenant, address.collection_no, address.record_id, row.change_id, row.topic)
