"""What a change of a definition breaks: by the definitions, and in stored records."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from core.expressions.compiler import CompilePattern
from core.records.collection import CollectionDefinition, new_unique_fields
from core.records.field import FieldDefinition, FieldType
from core.records.json_values import InvalidValueError
from core.records.values import COMPUTED, Matches, normalize_value


class ChangeSeverity(StrEnum):
    BREAKING = "breaking"
    """Stored records, or those who read and write them, may not fit any more."""
    NOTICE = "notice"


class DefinitionChange(NamedTuple):
    """What changes for one field, and what follows from it."""

    field: str
    kind: str
    severity: ChangeSeverity
    sentence: str


class RecordMisfit(NamedTuple):
    """Why a stored record does not fit a definition."""

    field: str
    expected: str


def compare_definitions(
    before: CollectionDefinition, after: CollectionDefinition
) -> list[DefinitionChange]:
    """List what a change of the definition means, by field, what breaks first."""
    found: list[DefinitionChange] = []
    for name, old in before.by_name.items():
        new = after.by_name.get(name)
        if new is None:
            found.append(
                _breaks(name, "removed", "who sends it is refused, who reads it gets null")
            )
        else:
            found += _compare(old, new)
    for name, new in after.by_name.items():
        if name not in before.by_name:
            found.append(_added(new))
    for indexed in set(after.slots) - set(before.slots):
        if indexed is not None and indexed in before.by_name:
            sentence = "its index is built in the background; listings are slower until then"
            found.append(_notice(indexed, "indexed", sentence))
    return sorted(found, key=lambda one: (one.severity, one.field))


def _added(field: FieldDefinition) -> DefinitionChange:
    if field.required and field.default is None:
        sentence = "stored records have no value for it, and need one when they are written"
        return _breaks(field.name, "added_required", sentence)
    return _notice(field.name, "added", "stored records have no value for it yet")


def _compare(old: FieldDefinition, new: FieldDefinition) -> Iterator[DefinitionChange]:
    name = new.name
    if new.type is not old.type:
        yield _breaks(name, "type", f"it was {old.type} and becomes {new.type}")
    if new.required and not old.required:
        yield _breaks(name, "required", "records without a value for it cannot be written")
    if new.unique and not old.unique:
        yield _breaks(name, "unique", "two records can no longer have the same value")
    if new.values and (not old.values or set(old.values) - set(new.values)):
        gone = sorted(set(old.values) - set(new.values))
        which = f"no longer {', '.join(gone[:10])}" if gone else "only the listed ones"
        yield _breaks(name, "values", f"it takes fewer values: {which}")
    if _is_narrower(old, new):
        yield _breaks(name, "bounds", "its bounds are narrower than before")
    if new.pattern is not None and new.pattern != old.pattern:
        yield _breaks(name, "pattern", f"a value has to match {new.pattern}")
    if new.target != old.target:
        yield _breaks(name, "target", f"it led to {old.target} and leads to {new.target}")
    if (new.formula, new.rollup) != (old.formula, old.rollup):
        sentence = "stored records keep what was computed until they are written"
        yield _notice(name, "formula", sentence)


def _is_narrower(old: FieldDefinition, new: FieldDefinition) -> bool:
    is_higher = new.min is not None and (old.min is None or new.min > old.min)
    is_lower = new.max is not None and (old.max is None or new.max < old.max)
    return is_higher or is_lower


def _breaks(name: str, kind: str, sentence: str) -> DefinitionChange:
    return DefinitionChange(name, kind, ChangeSeverity.BREAKING, sentence)


def _notice(name: str, kind: str, sentence: str) -> DefinitionChange:
    return DefinitionChange(name, kind, ChangeSeverity.NOTICE, sentence)


class RecordCheck:
    """Checks stored records against the fields of a definition that change."""

    def __init__(
        self,
        before: CollectionDefinition,
        after: CollectionDefinition,
        compile_pattern: CompilePattern,
    ) -> None:
        # Those that are new, too: stored records may have values of a field that was removed.
        self.fields = [field for field in after.fields if before.by_name.get(field.name) != field]
        self.unique = new_unique_fields(before, after)
        self._patterns: Mapping[str, Matches] = {
            field.name: compile_pattern(field.pattern)
            for field in self.fields
            if field.pattern is not None
        }

    @property
    def names(self) -> list[str]:
        """Return the fields of a record that the check reads."""
        return [field.name for field in self.fields]

    def misfits(self, data: Mapping[str, Any]) -> Iterator[RecordMisfit]:
        """List what keeps a record from being written as it is."""
        for field in self.fields:
            value = data.get(field.name)
            if value is None:
                if field.required and field.default is None:
                    yield RecordMisfit(field.name, "a value")
            elif field.type is not FieldType.ENCRYPTED and field.type not in COMPUTED:
                try:
                    normalize_value(field, value, self._patterns.get(field.name))
                except InvalidValueError as error:
                    yield RecordMisfit(f"{field.name}{error.place}", error.expected)
