"""Collections as this process writes records: compiled once for each version."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.records.collection import CollectionDefinition, CollectionStatus, IndexSlots
from core.records.field import FieldType
from core.records.record_schema import RecordSchema, compile_collection
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern
from services.shared.cache import Cache

COLLECTION_TTL = 30.0
"""Seconds after which a definition is read again, should a notification have been lost."""

MAX_KNOWN = 1_000


class CollectionSource(Protocol):
    """A stored collection."""

    @property
    def collection_no(self) -> int: ...

    @property
    def definition(self) -> CollectionDefinition: ...

    @property
    def status(self) -> CollectionStatus: ...

    @property
    def filled_slots(self) -> IndexSlots: ...


@dataclass(frozen=True, slots=True)
class RecordCollection:
    """A collection, and what its records must be."""

    collection_no: int
    schema: RecordSchema
    is_active: bool
    slots: IndexSlots
    """The columns that serve listings, each by its field; not those that are being filled."""

    @property
    def name(self) -> str:
        return self.schema.definition.name


@dataclass(frozen=True, slots=True)
class DetailLink:
    """A field of another collection by which its records belong to a master."""

    collection: RecordCollection
    slot: int
    """The column that has the master's id, from 0."""

    @property
    def is_filled(self) -> bool:
        return self.collection.slots[self.slot] is not None


ReadCollection = Callable[[int, str], Awaitable[CollectionSource | None]]
ReadReferring = Callable[[int, str], Awaitable[Sequence[CollectionSource]]]


class RecordCollections:
    """Reads collections by name, and keeps them until a change is notified."""

    def __init__(self, read: ReadCollection, read_referring: ReadReferring) -> None:
        async def find(key: tuple[int, str]) -> RecordCollection | None:
            found = await read(*key)
            return None if found is None else compiled(found)

        async def find_details(key: tuple[int, str]) -> tuple[DetailLink, ...]:
            own = await self.find(*key)  # its records may belong to each other
            others = [compiled(one) for one in await read_referring(*key)]
            return tuple(_links(key[1], [*others, *([] if own is None else [own])]))

        self._known = Cache(find, ttl=_ttl, monotonic=time.monotonic, limit=MAX_KNOWN)
        self._details = Cache(find_details, ttl=_ttl, monotonic=time.monotonic, limit=MAX_KNOWN)

    async def find(self, tenant: int, name: str) -> RecordCollection | None:
        return await self._known.get((tenant, name))

    async def refresh(self, tenant: int, name: str) -> RecordCollection | None:
        """Read a collection whose definition has just changed."""
        return await self._known.refresh((tenant, name))

    async def details(self, tenant: int, name: str) -> tuple[DetailLink, ...]:
        """Return how records of other collections belong to those of this one."""
        return await self._details.get((tenant, name))

    async def masters(self, tenant: int, collection: RecordCollection) -> Mapping[str, int]:
        """Return the numbers of the collections that MASTER_DETAIL fields lead to, by field."""
        found = {}
        for field in collection.schema.definition.fields:
            if field.type is FieldType.MASTER_DETAIL and field.target is not None:
                target = await self.find(tenant, field.target)
                if target is not None:
                    found[field.name] = target.collection_no
        return found

    def forget(self, tenant: int | None) -> None:
        """Forget the collections of a tenant; None: of all."""
        self._known.forget_where(lambda key: tenant in {None, key[0]})
        self._details.forget_where(lambda key: tenant in {None, key[0]})


def _ttl(_: object) -> float:
    return COLLECTION_TTL


def compiled(source: CollectionSource) -> RecordCollection:
    schema = compile_collection(
        source.collection_no, source.definition, compile_expression, compile_pattern
    )
    is_active = source.status is CollectionStatus.ACTIVE
    return RecordCollection(source.collection_no, schema, is_active, source.filled_slots)


def _links(master: str, others: Iterable[RecordCollection]) -> Iterable[DetailLink]:
    for other in others:
        definition = other.schema.definition
        for slot, name in enumerate(definition.slots):
            field = None if name is None else definition.by_name[name]
            is_link = field is not None and field.type is FieldType.MASTER_DETAIL
            if field is not None and is_link and field.target == master:
                yield DetailLink(other, slot)
