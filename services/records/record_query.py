"""Filters of listings as a query string has them: `status=open&total.gte=100&sort=-total`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from core.records.collection import IndexSlots
from core.records.comparison import indexed_text
from core.records.field import FieldDefinition, FieldType
from core.records.json_values import InvalidValueError, check_text
from core.records.record_schema import RecordSchema
from core.records.validation import check_name
from core.records.values import normalize_value
from core.shared.errors import InvalidError
from storage.records.record_listing import RecordFilter

MAX_CONDITIONS = 20
MAX_CHOICES = 100
_OPERATORS: Mapping[str, str] = {
    "eq": "==", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "ne": "!=", "in": "in",
}  # fmt: skip
_TIMES = {
    ("createdAt", "gte"): "created_from",
    ("createdAt", "lt"): "created_before",
    ("updatedAt", "gte"): "updated_from",
    ("updatedAt", "lt"): "updated_before",
}
_T = FieldType
_NUMBERS = frozenset({_T.INTEGER, _T.LONG, _T.DOUBLE, _T.CURRENCY, _T.PERCENT})
_READ_AS_TYPED = frozenset({_T.DATE, _T.DATETIME})
_UNFILTERED = frozenset({_T.ENCRYPTED, _T.JSON, _T.GEOLOCATION, _T.ROLLUP_SUMMARY})


class _Condition(NamedTuple):
    field: FieldDefinition
    operator: str
    values: tuple[Any, ...]


def read_filter(
    schema: RecordSchema, slots: IndexSlots, given: Iterable[tuple[str, str]], sort: str | None
) -> RecordFilter:
    """Read the conditions and the order of a listing that these columns can serve.

    Of the conditions, those on the field that orders the listing are served by its column; an
    equality on an indexed field chooses that column itself.

    Raises:
        InvalidError: A field, an operator or a value is not valid; it is named.
    """
    chosen, conditions = RecordFilter(), []
    for name, text in given:
        field_name, _, operator = name.partition(".")
        if field_name in {"createdAt", "updatedAt"}:
            chosen = _with_time(chosen, field_name, operator, name, text)
            continue
        conditions.append(_condition(schema, field_name, operator or "eq", name, text))
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidError("query", f"at most {MAX_CONDITIONS} conditions")
    column = _sorted_by(schema, slots, sort) or _equal_column(slots, conditions)
    chosen = replace(chosen, descending=(sort or "").startswith("-"))
    if column is not None:
        chosen = _bounded(replace(chosen, slot=slots.index(column)), column, conditions)
    return _with_path(chosen, conditions) if conditions else chosen


def _with_time(
    chosen: RecordFilter, field: str, operator: str, name: str, text: str
) -> RecordFilter:
    bound = _TIMES.get((field, operator))
    if bound is None:
        raise InvalidError(name, f"{field}.gte or {field}.lt")
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return replace(chosen, **{bound: at.timestamp()})  # type: ignore[arg-type]  # its times
    except (ValueError, OverflowError):
        pass
    raise InvalidError(name, "a time with its offset, such as 2026-01-31T12:30:00Z")


def _condition(
    schema: RecordSchema, field_name: str, operator: str, name: str, text: str
) -> _Condition:
    field = schema.definition.by_name.get(field_name)
    if field is None:
        hint = check_name(list(schema.definition.by_name), field_name)
        raise InvalidError(
            name[:100], f"a field of {schema.definition.name}; there is no such field{hint}"
        )
    if operator not in _OPERATORS:
        raise InvalidError(name, f"one of the operators {', '.join(_OPERATORS)}")
    if field.type in _UNFILTERED:
        raise InvalidError(name, f"another field: a {field.type} cannot be filtered by")
    if field.name in schema.definition.hidden:
        raise InvalidError(name, "another field: this one was ENCRYPTED before, and is masked")
    texts = text.split(",") if operator == "in" else [text]
    if len(texts) > MAX_CHOICES:
        raise InvalidError(name, f"at most {MAX_CHOICES} values")
    try:
        values = tuple(_value(field, one) for one in texts)
    except InvalidValueError as error:
        raise InvalidError(name, error.expected) from None
    return _Condition(field, operator, values)


def _value(field: FieldDefinition, text: str) -> Any:
    """Read a value from text, as the type of its field says."""
    check_text(text)
    plain = FieldDefinition(name=field.name, type=field.type)
    if field.type in _NUMBERS:
        return normalize_value(plain, _literal(text))
    if field.type is _T.BOOLEAN:
        return normalize_value(plain, {"true": True, "false": False}.get(text))
    if field.type in _READ_AS_TYPED:
        return normalize_value(plain, text)
    if field.type is _T.FORMULA or (field.type is _T.AUTO_NUMBER and field.format is None):
        found = _literal(text)
        return text if found is None else found
    return text


def _literal(text: str) -> Any:
    """Return the number or the boolean that a text spells; None if neither."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, int | float) else None


def _sorted_by(schema: RecordSchema, slots: tuple[str | None, ...], sort: str | None) -> str | None:
    name = (sort or "id").removeprefix("-")
    if name == "id":
        return None
    hidden = schema.definition.hidden  # a cursor would show what sorts a listing
    if name not in slots or name in hidden:
        known = ", ".join(["id", *(one for one in slots if one is not None and one not in hidden)])
        raise InvalidError("sort", f"an indexed field of {schema.definition.name}: {known}")
    return name


def _equal_column(slots: tuple[str | None, ...], conditions: Iterable[_Condition]) -> str | None:
    return next(
        (one.field.name for one in conditions if one.operator == "eq" and one.field.name in slots),
        None,
    )


def _bounded(chosen: RecordFilter, column: str, conditions: Iterable[_Condition]) -> RecordFilter:
    """Bound the column that orders the listing; the document is compared as well."""
    for condition in conditions:
        if condition.field.name != column or condition.operator not in _BOUNDS:
            continue
        text = indexed_text(condition.field, condition.values[0])
        chosen = _BOUNDS[condition.operator](chosen, text)
    return chosen


def _from(chosen: RecordFilter, text: str | None) -> RecordFilter:
    return replace(chosen, low=max(filter(None, (chosen.low, text)), default=None))


def _to(chosen: RecordFilter, text: str | None) -> RecordFilter:
    return replace(chosen, high=min(filter(None, (chosen.high, text)), default=None))


_BOUNDS: Mapping[str, Callable[[RecordFilter, str | None], RecordFilter]] = {
    "eq": lambda chosen, text: _to(_from(chosen, text), text),
    "gt": _from,
    "gte": _from,
    "lt": _to,
    "lte": _to,
}


def _with_path(chosen: RecordFilter, conditions: list[_Condition]) -> RecordFilter:
    """Write the conditions as a JSON path; values are variables of it."""
    parts: list[str] = []
    variables: dict[str, Any] = {}
    for condition in conditions:
        names = []
        for value in condition.values:
            names.append(f"$v{len(variables)}")
            variables[names[-1][1:]] = value
        parts.append(_part(condition, names))
    return replace(chosen, path=" && ".join(parts), values=msgspec.json.encode(variables).decode())


def _part(condition: _Condition, names: list[str]) -> str:
    place = f'$."{condition.field.name}"'
    if condition.operator == "in":
        return "(" + " || ".join(f"{place} == {name}" for name in names) + ")"
    if condition.operator == "ne":
        return f"!({place} == {names[0]})"
    return f"({place} {_OPERATORS[condition.operator]} {names[0]})"
