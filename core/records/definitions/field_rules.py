"""Rules for one field of a definition: which settings its type has, and what they may be."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from core.expressions.compiler import CompilePattern
from core.records.collection import SYSTEM_FIELDS
from core.records.data_path import NAME
from core.records.field import RELATIONSHIPS, FieldDefinition, FieldType
from core.records.json_values import InvalidValueError
from core.records.values import normalize_value

MAX_DESCRIPTION_CHARS = 1_000
MAX_VALUES = 1_000
MAX_VALUE_CHARS = 255
MAX_BOUND = 2**63

Place = tuple[str | int, ...]

_T = FieldType
_NUMBERS = {_T.INTEGER, _T.LONG, _T.DOUBLE, _T.CURRENCY, _T.PERCENT}
_LINES = {_T.STRING, _T.PHONE, _T.EMAIL, _T.URL, _T.EXTERNAL_ID}
_TEXTS = {*_LINES, _T.RICH_TEXT, _T.ENCRYPTED}
_LISTS = {_T.ARRAY, _T.MULTI_PICKLIST}
_TIMES = {_T.DATE, _T.DATETIME}
_COMPUTED = {_T.AUTO_NUMBER, _T.FORMULA, _T.ROLLUP_SUMMARY}
_PLAIN = {*_LINES, *_NUMBERS, *_TIMES, _T.PICKLIST, *RELATIONSHIPS}
_SETTINGS: Mapping[str, frozenset[FieldType]] = {
    "required": frozenset(set(FieldType) - _COMPUTED),
    "unique": frozenset(_PLAIN),
    "indexed": frozenset({*_PLAIN, _T.BOOLEAN, _T.AUTO_NUMBER, _T.FORMULA}),
    "default": frozenset(set(FieldType) - _COMPUTED - {_T.ENCRYPTED}),
    "values": frozenset({_T.PICKLIST, _T.MULTI_PICKLIST, _T.STRING}),
    "min": frozenset({*_NUMBERS, *_TEXTS, *_LISTS}),
    "max": frozenset({*_NUMBERS, *_TEXTS, *_LISTS}),
    "pattern": frozenset(_LINES),
    "target": RELATIONSHIPS,
    "formula": frozenset({_T.FORMULA}),
    "rollup": frozenset({_T.ROLLUP_SUMMARY}),
    "format": frozenset({_T.AUTO_NUMBER}),
}
"""Which types have a setting."""
_NEEDED: Mapping[str, frozenset[FieldType]] = {
    "values": frozenset({_T.PICKLIST, _T.MULTI_PICKLIST}),
    "target": RELATIONSHIPS,
    "formula": frozenset({_T.FORMULA}),
    "rollup": frozenset({_T.ROLLUP_SUMMARY}),
}
_DEFAULTS: Mapping[str, Any] = {"required": False, "unique": False, "indexed": False, "values": ()}
_name = re.compile(NAME)
_format = re.compile(r"[^{}\x00-\x1f]{0,40}\{0{1,18}\}[^{}\x00-\x1f]{0,40}")


class DefinitionFault(NamedTuple):
    """What is wrong at one place of a definition."""

    place: Place
    problem: str

    @property
    def pointer(self) -> str:
        """Return the place as a JSON pointer."""
        return "".join(f"/{part}" for part in self.place)

    @property
    def field(self) -> str:
        """Return the place as errors of requests name it: fields[3].default."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return "".join(parts).lstrip(".") or "body"


def check_field(
    field: FieldDefinition, place: Place, compile_pattern: CompilePattern
) -> Iterator[DefinitionFault]:
    """Find what is wrong with a field in itself, whatever the other fields are."""
    found = [
        *_check_name(field.name),
        *_check_settings(field),
        *_check_values(field),
        *_check_bounds(field),
    ]
    matches = None
    if field.pattern is not None:
        try:
            matches = compile_pattern(field.pattern)
        except ValueError as error:
            found.append(("pattern", f"is no RE2 expression: {error}"))
    if field.default is not None and not found:
        try:
            normalize_value(field, field.default, matches)
        except InvalidValueError as error:
            found.append(("default", f"is not a value of this field: expected {error.expected}"))
    return (DefinitionFault((*place, setting), problem) for setting, problem in found)


def _check_name(name: str) -> Iterator[tuple[str, str]]:
    if not _name.fullmatch(name):
        yield "name", "is not a name: letters, digits and _, not beginning with a digit, up to 100"
    elif name in SYSTEM_FIELDS:
        yield "name", f"is a field that every record has: choose another name than {name}"


def _check_settings(field: FieldDefinition) -> Iterator[tuple[str, str]]:
    for setting, types in _SETTINGS.items():
        is_set = getattr(field, setting) != _DEFAULTS.get(setting)
        if is_set and field.type not in types:
            yield setting, f"cannot be set for a field of type {field.type}, {_only(types)}"
        elif not is_set and field.type in _NEEDED.get(setting, ()):
            yield setting, f"is needed for a field of type {field.type}"
    if field.unique and field.default is not None:
        yield "default", "cannot be set for a unique field: two records would have it"
    if field.format is not None and not _format.fullmatch(field.format):
        yield "format", "holds one {0}, with a zero for each digit, such as INV-{0000}"
    if len(field.description or "") > MAX_DESCRIPTION_CHARS:
        yield "description", f"has {MAX_DESCRIPTION_CHARS:,} characters at most"


def _only(types: Iterable[FieldType]) -> str:
    named = sorted(types)
    return f"only for {', '.join(named)}" if len(named) <= 8 else "which cannot have it"


def _check_values(field: FieldDefinition) -> Iterator[tuple[str, str]]:
    if len(field.values) > MAX_VALUES:
        yield "values", f"are {MAX_VALUES:,} at most"
    if len(set(field.values)) < len(field.values):
        yield "values", "names each value once"
    if any(not 0 < len(value) <= MAX_VALUE_CHARS for value in field.values):
        yield "values", f"have 1 to {MAX_VALUE_CHARS} characters each"


def _check_bounds(field: FieldDefinition) -> Iterator[tuple[str, str]]:
    given = {"min": field.min, "max": field.max}
    is_length = field.type not in _NUMBERS
    for name, bound in given.items():
        if bound is None:
            continue
        # The comparison is false for a number that is none.
        if not -MAX_BOUND <= bound <= MAX_BOUND:
            yield name, "is a number from -2^63 to 2^63"
        elif is_length and (bound < 0 or bound != int(bound)):
            yield name, "is a length here: a whole number from 0"
    if field.min is not None and field.max is not None and field.min > field.max:
        yield "max", f"is at least min, which is {field.min:g}"
