"""Collections: named, versioned definitions of records."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

import msgspec

from core.records.field import MAX_INDEXED, FieldDefinition, FieldType
from core.shared.refusal import CONFLICT, NOT_FOUND, STALE, Refusal

SYSTEM_FIELDS = frozenset({"id", "version", "createdAt", "updatedAt", "createdBy", "updatedBy"})
"""Fields that every record has beside those of its collection."""
COLLECTION_NAME = r"[a-z][a-z0-9-]{0,99}"
"""A segment of event types, too: what follows a collection subscribes to its name."""
MAX_DEFINITION_BYTES = 256 * 1024
MAX_TENANT_BYTES = 32 * 1024 * 1024
"""Of all definitions of a tenant together."""
MAX_VERSIONS = 100
"""Versions of a collection that are kept."""
MAX_DEFINITION_AGE = 60.0
"""For how many seconds after a change a statement may run that used the definition before it."""

_name = re.compile(COLLECTION_NAME)
IndexSlots: TypeAlias = tuple[str | None, ...]
NO_SLOTS: IndexSlots = (None,) * MAX_INDEXED


class CollectionStatus(StrEnum):
    """Whether records can be written; those of an archived collection can be read."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"


class CollectionRefusal(Refusal):
    """Why a collection cannot be created, changed or archived."""

    COLLECTION_NOT_FOUND = NOT_FOUND, "there is no collection with this id or name"
    VERSION_NOT_FOUND = NOT_FOUND, "this version of the collection is not kept"
    NAME_EXISTS = CONFLICT, "a collection has this name; if it is archived, activate it"
    COLLECTION_ARCHIVED = CONFLICT, "this collection is archived: activate it first"
    COLLECTION_IN_USE = CONFLICT, "fields of other collections lead to this collection"
    DEFINITIONS_TOO_LONG = (
        CONFLICT,
        f"the definitions of all collections together have {MAX_TENANT_BYTES // 2**20} MB at most: "
        "shorten some, such as lists of values",
    )
    VALUES_NOT_UNIQUE = (
        CONFLICT,
        "records have the same value in a field that is to be unique: the preview names some",
    )
    TOO_MANY_RECORDS = (
        CONFLICT,
        "the collection has too many records to make a field unique: add a field that is unique "
        "from the beginning, and copy the values",
    )
    VERSION_CHANGED = STALE, "the collection has another version by now: read it and try again"


class CollectionDefinition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    name: str
    fields: tuple[FieldDefinition, ...]
    version: int = 1
    slots: IndexSlots = NO_SLOTS
    """The indexed field in each of the columns `indexed_1` to `indexed_3` of records."""
    masked: tuple[str, ...] = ()
    """The fields that were ENCRYPTED in earlier versions; stored values may still be secrets."""

    @cached_property
    def by_name(self) -> Mapping[str, FieldDefinition]:
        return {field.name: field for field in self.fields}

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Return the fields whose values nobody is shown: they are ENCRYPTED, or once were."""
        encrypted = {one.name for one in self.fields if one.type is FieldType.ENCRYPTED}
        return frozenset(encrypted.union(self.masked))

    @cached_property
    def refers_to(self) -> frozenset[str]:
        """Return the names of the collections that fields lead to or sum up."""
        targets = {field.target for field in self.fields if field.target is not None}
        return frozenset(targets | {one.rollup.collection for one in self.fields if one.rollup})


Collections: TypeAlias = Mapping[str, CollectionDefinition]
"""The collections of one tenant, by name."""


def is_collection_name(text: str) -> bool:
    return _name.fullmatch(text) is not None


def assign_slots(fields: Iterable[FieldDefinition], before: IndexSlots = NO_SLOTS) -> IndexSlots:
    """Give each indexed field a column. A field keeps the column that it had.

    What is indexed beyond the number of columns gets none.
    """
    wanted = [field.name for field in fields if field.is_indexed]
    slots = [name if name in wanted else None for name in before]
    for name in wanted:
        if name not in slots and None in slots:
            slots[slots.index(None)] = name
    return tuple(slots)


def new_unique_fields(before: CollectionDefinition, after: CollectionDefinition) -> list[str]:
    """List the fields that become unique."""
    return [name for name in unique_fields(after) if name not in unique_fields(before)]


def unique_fields(definition: CollectionDefinition) -> list[str]:
    return [field.name for field in definition.fields if field.unique]


def unfilled_slots(before: CollectionDefinition, after: CollectionDefinition) -> list[str]:
    """List the indexed fields whose columns have to be filled anew in stored records.

    A column that no field has any more can keep its values.
    """
    return [
        name
        for was, name in zip(before.slots, after.slots, strict=True)
        if name is not None and (name != was or _type_of(before, name) != _type_of(after, name))
    ]


def needs_reindexing(before: CollectionDefinition, after: CollectionDefinition) -> bool:
    """Return whether the columns or unique values of stored records have to be filled anew."""
    is_same = set(unique_fields(before)) == set(unique_fields(after))
    return not is_same or bool(unfilled_slots(before, after))


def _type_of(definition: CollectionDefinition, name: str) -> FieldType | None:
    field = definition.by_name.get(name)
    return None if field is None else field.type
