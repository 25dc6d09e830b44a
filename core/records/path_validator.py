"""Validates data paths against the collections that they lead through."""

from difflib import get_close_matches
from typing import NamedTuple

from core.records.collection import SYSTEM_FIELDS, CollectionDefinition, Collections
from core.records.data_path import DataPath, DataPathSegment, SegmentType
from core.records.field import FieldType


class DataPathValidation(NamedTuple):
    """What a path leads to, or why it leads nowhere and at which segment (from 0)."""

    valid: bool
    error_message: str | None = None
    error_segment: int | None = None
    terminal_field_name: str | None = None
    terminal_field_type: FieldType | None = None
    """None for system fields and for the results of scripts."""
    terminal_collection_name: str | None = None


def validate_data_path(path: DataPath, root: str, collections: Collections) -> DataPathValidation:
    """Follow a path through the definitions, beginning at the collection `root`."""
    current = collections.get(root)
    if current is None:
        return _invalid(0, f"there is no collection {root}{_hint(root, collections)}")
    for number, segment in enumerate(path.segments):
        if segment.type is SegmentType.SCRIPT:
            return DataPathValidation(True, terminal_field_name=path.terminal.field_name)
        if segment.type is SegmentType.FIELD:
            return _terminal(number, segment, current)
        found = _follow(segment, current, collections)
        if isinstance(found, str):
            return _invalid(number, found)
        current = found
    raise ValueError("a data path without a terminal segment")


def _terminal(
    number: int, segment: DataPathSegment, collection: CollectionDefinition
) -> DataPathValidation:
    name = segment.field_name
    field = collection.by_name.get(name)
    if field is None and name not in SYSTEM_FIELDS:
        return _invalid(number, _no_field(name, collection))
    kind = None if field is None else field.type
    return DataPathValidation(
        True,
        terminal_field_name=name,
        terminal_field_type=kind,
        terminal_collection_name=collection.name,
    )


def _follow(
    segment: DataPathSegment, collection: CollectionDefinition, collections: Collections
) -> CollectionDefinition | str:
    """Return the collection that a relationship leads to, or why it leads to none."""
    name = segment.field_name
    field = collection.by_name.get(name)
    if field is None:
        return _no_field(name, collection)
    if not field.type.is_relationship:
        return (
            f"{name} of collection {collection.name} is of type {field.type} and cannot be "
            f"followed: only LOOKUP, MASTER_DETAIL and REFERENCE can"
        )
    target = None if field.target is None else collections.get(field.target)
    if target is None:
        return f"{name} of collection {collection.name} leads to {field.target}, which is gone"
    return target


def _no_field(name: str, collection: CollectionDefinition) -> str:
    known = [*collection.by_name, *sorted(SYSTEM_FIELDS)]
    return f"collection {collection.name} has no field {name}{_hint(name, known)}"


def _hint(name: str, known: Collections | list[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _invalid(segment: int, message: str) -> DataPathValidation:
    return DataPathValidation(False, message, segment)
