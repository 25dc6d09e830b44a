"""The one way to write a record: whoever writes one, calls `save`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from core.records.comparison import difference
from core.records.messages import (
    FieldProblem,
    RecordRefusal,
    RecordRefused,
    RecordResult,
    RecordSaved,
    RecordWrite,
    SaveRecord,
    refused,
)
from core.records.record import ChangeKind, Record, RecordChange, add_turn
from core.records.record_schema import RecordSchema, UniqueKey
from core.records.validation import CIPHERTEXT_PREFIX, check_fields, missing_fields
from core.records.values import COMPUTED, number_text
from core.shared.entities import Row
from core.shared.timestamps import to_iso

MAX_DOCUMENT_BYTES = 256 * 1024

_encode = msgspec.json.Encoder().encode


class UpcomingChange(NamedTuple):
    """What a hook sees before a record is saved."""

    kind: ChangeKind
    message: SaveRecord
    before: Mapping[str, Any]
    data: Mapping[str, Any]


class RecordHooks(NamedTuple):
    """What rules do with a write, in the same transaction."""

    before_save: Callable[[UpcomingChange], Mapping[str, Any]] = lambda _: {}
    """Returns fields to set; null removes a value."""
    after_save: Callable[[RecordChange], tuple[Row, ...]] = lambda _: ()
    """Returns rows to append."""


class SavedState(NamedTuple):
    """What a write stores."""

    record: Record
    change: RecordChange
    rows: tuple[Row, ...] = ()
    taken: tuple[UniqueKey, ...] = ()
    released: tuple[UniqueKey, ...] = ()

    @property
    def reply(self) -> RecordSaved:
        return reply_of(self.record, created=self.change.kind is ChangeKind.CREATED)


def reply_of(record: Record, *, created: bool = False) -> RecordSaved:
    return RecordSaved(
        version=record.version,
        created=created,
        data=dict(record.data),
        created_at=record.created_at,
        updated_at=record.updated_at,
        created_by=record.created_by,
        updated_by=record.updated_by,
    )


def save(
    message: SaveRecord,
    current: Record | None,
    schema: RecordSchema,
    hooks: RecordHooks,
    now: float,
    new_id: Callable[[], str],
) -> SavedState | RecordResult:
    """Decide a write: what it stores, or why nothing has to be stored."""
    if current is not None and current.version_of_turn(message.turn_id) is not None:
        return reply_of(current, created=message.write is RecordWrite.CREATE)
    refusal = refuse_write(message, current, schema)
    if refusal is not None:
        return refusal
    stored = None if current is None or current.deleted_at is not None else current
    kind = _kind_of(message, stored)
    if stored is not None and kind is ChangeKind.DELETED:
        return _deleted(message, stored, schema, hooks, now, new_id)
    before: Mapping[str, Any] = {} if stored is None else stored.data
    data, problems = _document(message, kind, before, schema, hooks, now)
    encoded = _encode(data)
    if len(encoded) > MAX_DOCUMENT_BYTES:
        size = f"at most {MAX_DOCUMENT_BYTES // 1024} KB of JSON; it has {len(encoded):,} bytes"
        problems.append(FieldProblem("record", size))
    if problems:
        return refused(RecordRefusal.INVALID_RECORD, *problems)
    changed = None if stored is None else difference(before, data)
    if stored is not None and not changed:
        return reply_of(stored)
    record = _next_state(message, current, stored, data, schema, now)
    old, new = schema.unique_keys(before), schema.unique_keys(data)
    change = _change_of(message, record, kind, changed, now, new_id)
    return SavedState(
        record,
        change,
        hooks.after_save(change),
        taken=tuple(sorted(new - old)),
        released=tuple(sorted(old - new)),
    )


def refuse_write(
    message: SaveRecord, current: Record | None, schema: RecordSchema
) -> RecordRefused | None:
    """Return why the write does not fit what is stored."""
    exists = current is not None and current.deleted_at is None
    version = current.version if current is not None and exists else None
    if message.write is RecordWrite.CREATE and exists:
        return refused(RecordRefusal.RECORD_EXISTS, version=version)
    if not exists and message.write not in {RecordWrite.CREATE, RecordWrite.UPSERT}:
        return refused(RecordRefusal.RECORD_NOT_FOUND)
    if message.expected_version is not None and message.expected_version != version:
        return refused(RecordRefusal.VERSION_MISMATCH, version=version)
    if message.definition_version != schema.version:
        return refused(RecordRefusal.COLLECTION_CHANGED)
    return None


def _kind_of(message: SaveRecord, stored: Record | None) -> ChangeKind:
    if message.write is RecordWrite.DELETE:
        return ChangeKind.DELETED
    return ChangeKind.CREATED if stored is None else ChangeKind.UPDATED


def _document(
    message: SaveRecord,
    kind: ChangeKind,
    before: Mapping[str, Any],
    schema: RecordSchema,
    hooks: RecordHooks,
    now: float,
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Return the document after the write, and what is not valid in it."""
    data = _merged(message, kind, before, schema)
    problems: list[FieldProblem] = []
    hooked = hooks.before_save(UpcomingChange(kind, message, before, data))
    if hooked:
        fields, _, found = check_fields(schema, RecordWrite.MERGE, hooked)
        problems += found
        data = {k: v for k, v in {**data, **fields}.items() if v is not None}
    if schema.formulas:
        scope = {"previous": dict(before), "now": to_iso(now), "user": message.user}
        data, unsolved = schema.compute(data, scope)
        problems += unsolved
    problems += _forged_values(before, data, schema)
    return data, [*problems, *missing_fields(schema, data)]


def _forged_values(
    before: Mapping[str, Any], data: Mapping[str, Any], schema: RecordSchema
) -> list[FieldProblem]:
    """Return a problem for each new text that would be taken for an encrypted value.

    Its field may become ENCRYPTED, or have been.
    """
    return [
        FieldProblem(name, f"a text that does not begin with {CIPHERTEXT_PREFIX}")
        for name, value in data.items()
        if isinstance(value, str)
        and value.startswith(CIPHERTEXT_PREFIX)
        and name not in schema.encrypted
        and before.get(name) != value
    ]


def _merged(
    message: SaveRecord, kind: ChangeKind, before: Mapping[str, Any], schema: RecordSchema
) -> dict[str, Any]:
    if kind is ChangeKind.CREATED:
        given = {**schema.defaults, **message.fields, **_numbers(message, schema)}
    elif message.write is RecordWrite.REPLACE:
        stays = {*message.kept, *_computed_fields(schema)}
        kept = {name: value for name, value in before.items() if name in stays}
        given = {**schema.defaults, **kept, **message.fields}
    else:
        given = {**before, **message.fields}
    return {name: value for name, value in given.items() if value is not None}


def _numbers(message: SaveRecord, schema: RecordSchema) -> dict[str, Any]:
    by_name = schema.definition.by_name
    return {name: number_text(by_name[name], n) for name, n in message.numbers.items()}


def _computed_fields(schema: RecordSchema) -> set[str]:
    return {field.name for field in schema.definition.fields if field.type in COMPUTED}


def _next_state(
    message: SaveRecord,
    current: Record | None,
    stored: Record | None,
    data: dict[str, Any],
    schema: RecordSchema,
    now: float,
) -> Record:
    """Return the next version; a record that was deleted goes on counting."""
    return Record(
        address=message.address,
        version=1 if current is None else current.version + 1,
        revision=0 if current is None else current.revision,
        data=data,
        indexed=schema.indexed_columns(data),
        created_at=now if stored is None else stored.created_at,
        updated_at=now,
        created_by=message.user if stored is None else stored.created_by,
        updated_by=message.user,
        recent_turns=add_turn(b"" if current is None else current.recent_turns, message.turn_id),
    )


def _deleted(
    message: SaveRecord,
    stored: Record,
    schema: RecordSchema,
    hooks: RecordHooks,
    now: float,
    new_id: Callable[[], str],
) -> SavedState:
    """Mark a record as deleted; its document stays for the history."""
    record = replace(
        stored,
        version=stored.version + 1,
        indexed=(None, None, None),
        updated_at=now,
        updated_by=message.user,
        deleted_at=now,
        recent_turns=add_turn(stored.recent_turns, message.turn_id),
    )
    change = _change_of(message, record, ChangeKind.DELETED, {}, now, new_id)
    released = tuple(sorted(schema.unique_keys(stored.data)))
    return SavedState(record, change, hooks.after_save(change), released=released)


def _change_of(
    message: SaveRecord,
    record: Record,
    kind: ChangeKind,
    before: dict[str, Any] | None,
    now: float,
    new_id: Callable[[], str],
) -> RecordChange:
    return RecordChange(
        address=record.address,
        change_id=new_id(),
        version=record.version,
        kind=kind,
        data=record.text,
        before=None if before is None else _encode(before).decode(),
        user_id=message.user,
        turn_id=message.turn_id,
        cause=message.cause,
        depth=message.depth,
        at=now,
    )
