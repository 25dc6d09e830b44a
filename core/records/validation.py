"""Validates the fields of a write: all problems at once, each with its field."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from typing import Any, NamedTuple

from core.records.collection import SYSTEM_FIELDS
from core.records.field import FieldDefinition
from core.records.json_values import InvalidValueError
from core.records.messages import FieldProblem, RecordWrite
from core.records.record_schema import RecordSchema
from core.records.values import COMPUTED, normalize_value

MAX_PROBLEMS = 100
MASK = "•••"
"""Shown for a value that is encrypted; sent back, it means the value that is stored."""
CIPHERTEXT_PREFIX = "enc:1:"
"""What an encrypted value begins with where it is stored: a text of a caller must not."""
_IS_REQUIRED = "is required"
_LENIENT = frozenset({RecordWrite.REPLACE, RecordWrite.UPSERT})


class CheckedFields(NamedTuple):
    """The fields of a write as they are stored; null removes a value."""

    fields: dict[str, Any]
    kept: tuple[str, ...] = ()
    """Masked fields that were sent back as they were shown."""
    problems: tuple[FieldProblem, ...] = ()


def check_fields(
    schema: RecordSchema, write: RecordWrite, submitted: Mapping[str, Any]
) -> CheckedFields:
    """Normalise the submitted fields.

    What was read can be sent back: a replacement ignores system fields and computed ones.
    """
    fields: dict[str, Any] = {}
    kept: list[str] = []
    problems: list[FieldProblem] = []
    for name, value in submitted.items():
        field = schema.definition.by_name.get(name)
        if write in _LENIENT and (name in SYSTEM_FIELDS or _is_computed(field)):
            continue
        if field is None:
            problems.append(_unknown(schema, name))
        elif value == MASK and name in schema.definition.hidden:
            kept.append(name)
        else:
            _read(schema, field, value, fields, problems)
    if write in {RecordWrite.CREATE, RecordWrite.REPLACE}:
        known = {**schema.defaults, **fields, **dict.fromkeys(kept, MASK)}
        problems += missing_fields(schema, known, {one.field for one in problems})
    return CheckedFields(fields, tuple(kept), tuple(problems[:MAX_PROBLEMS]))


def missing_fields(
    schema: RecordSchema, data: Mapping[str, Any], besides: AbstractSet[str] = frozenset()
) -> list[FieldProblem]:
    """Return a problem for each required field without a value; the collection fills computed."""
    return [
        FieldProblem(name, _IS_REQUIRED)
        for name in schema.required
        if data.get(name) is None and name not in besides
    ]


def check_name(known: list[str], name: str) -> str:
    close = get_close_matches(name[:100], known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _read(
    schema: RecordSchema,
    field: FieldDefinition,
    value: Any,
    fields: dict[str, Any],
    problems: list[FieldProblem],
) -> None:
    if value is None:
        if field.type in COMPUTED:
            problems.append(FieldProblem(field.name, "nothing: it is computed and cannot be set"))
        elif field.required and field.default is None:
            problems.append(FieldProblem(field.name, _IS_REQUIRED))
        else:
            fields[field.name] = None
        return
    try:
        fields[field.name] = normalize_value(field, value, schema.patterns.get(field.name))
    except InvalidValueError as error:
        problems.append(FieldProblem(f"{field.name}{error.place}", error.expected))


def _unknown(schema: RecordSchema, name: str) -> FieldProblem:
    shown = name if len(name) <= 100 else f"{name[:100]}…"
    safe = shown.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    if name in SYSTEM_FIELDS:
        return FieldProblem(safe, "nothing: it is set by Muster")
    hint = check_name(list(schema.definition.by_name), name)
    return FieldProblem(safe, f"a field of {schema.definition.name}; there is no such field{hint}")


def _is_computed(field: FieldDefinition | None) -> bool:
    return field is not None and field.type in COMPUTED
