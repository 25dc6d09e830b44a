"""Orders and their lines, and a shard of one process that decides and keeps them in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from core.records.collection import (
    CollectionDefinition,
    CollectionStatus,
    IndexSlots,
    assign_slots,
)
from core.records.field import FieldDefinition, FieldType
from core.records.messages import RecordMessage
from core.records.record import Collection, Record, RecordAddress, UniqueValue
from core.records.transitions import RecordTransitions
from core.shared.entities import Entity, EntityRef, Transition
from services.records.record_collections import RecordCollection, RecordCollections, compiled
from services.records.record_numbers import AutoNumbers
from services.records.record_writer import RecordWriter
from tests.support.read_views import StoredView

TENANT = 1
T = FieldType


@dataclass(frozen=True)
class StoredDefinition:
    collection_no: int
    definition: CollectionDefinition
    status: CollectionStatus = CollectionStatus.ACTIVE
    unfilled: tuple[str, ...] = ()

    @property
    def filled_slots(self) -> IndexSlots:
        return tuple(None if name in self.unfilled else name for name in self.definition.slots)


def define(number: int, name: str, *fields: FieldDefinition, version: int = 1) -> StoredDefinition:
    slots = assign_slots(fields)
    definition = CollectionDefinition(name=name, fields=fields, version=version, slots=slots)
    return StoredDefinition(number, definition)


ORDERS = define(
    1,
    "orders",
    FieldDefinition(name="name", type=T.STRING, required=True),
    FieldDefinition(name="code", type=T.EXTERNAL_ID, unique=True),
    FieldDefinition(name="number", type=T.AUTO_NUMBER, format="O-{000}"),
    FieldDefinition(name="card", type=T.ENCRYPTED),
)
LINES = define(
    2, "lines", FieldDefinition(name="order", type=T.MASTER_DETAIL, target="orders", required=True)
)
NOTES = define(3, "notes", FieldDefinition(name="line", type=T.MASTER_DETAIL, target="lines"))


class Shop:
    """The collections, and a writer whose messages are decided at once."""

    def __init__(self, *sources: StoredDefinition) -> None:
        self.sources = {one.definition.name: one for one in sources or (ORDERS, LINES, NOTES)}
        self.records: dict[EntityRef[Any], Entity] = {}
        self.sent: list[RecordMessage] = []
        self.searches = 0
        self.collections = RecordCollections(self._read, self._referring)
        numbers, self._turns, self._ids = count(1), count(1), count(1)

        async def lease(_tenant: int, _number: int, _field: str, block: int) -> int:
            first, *_ = [next(numbers) for _ in range(block)]
            return first

        self.writer = RecordWriter(
            self.collections,
            self.send_many,
            AutoNumbers(lease),
            lambda address, field, text: f"enc:{address.record_id}:{field}:{text[::-1]}",
            lambda: f"r{next(self._ids)}",
            lambda: f"t{next(self._turns)}",
        )

    async def _read(self, tenant: int, name: str) -> StoredDefinition | None:
        return self.sources.get(name) if tenant == TENANT else None

    async def _referring(self, _tenant: int, name: str) -> Sequence[StoredDefinition]:
        return [
            one
            for one in self.sources.values()
            if name in one.definition.refers_to and one.definition.name != name
        ]

    def collection(self, name: str) -> RecordCollection:
        return compiled(self.sources[name])

    async def send_many(self, messages: list[Any]) -> list[Any]:
        self.sent += messages
        return [self._decide(message) for message in messages]

    def _decide(self, message: RecordMessage) -> Any:
        by_number = {one.collection_no: one for one in self.sources.values()}
        held = {
            one.ref: one
            for number, source in by_number.items()
            for one in [
                Collection(
                    tenant=TENANT,
                    collection_no=number,
                    collection_id="",
                    definition=source.definition,
                )
            ]
        }
        view = StoredView()
        while True:
            schema_of = lambda one: compiled(by_number[one.collection_no]).schema  # noqa: E731
            found = RecordTransitions(schema_of).apply(message, view, 1.0, lambda: "c")
            if isinstance(found, Transition):
                break
            view.known |= {ref: {**held, **self.records}.get(ref) for ref in found.entities}
        for entity in found.entities:
            is_gone = isinstance(entity, UniqueValue) and entity.record_id is None
            self.records.pop(entity.ref, None)
            if not is_gone:
                self.records[entity.ref] = entity
        return found.reply

    def record(self, collection_no: int, record_id: str) -> Record:
        found = self.records[RecordAddress(TENANT, collection_no, record_id).ref]
        assert isinstance(found, Record)
        return found

    async def version(self, tenant: int, collection_no: int, record_id: str) -> int | None:
        found = self.records.get(RecordAddress(tenant, collection_no, record_id).ref)
        return found.version if isinstance(found, Record) and found.deleted_at is None else None

    async def find_details(
        self,
        tenant: int,
        column: tuple[int, int],
        masters: Sequence[str],
        besides: Sequence[str],
        limit: int,
    ) -> list[tuple[str, str]]:
        """Find details as the index of their column does."""
        assert tenant == TENANT
        self.searches += 1
        collection_no, slot = column
        (source,) = (one for one in self.sources.values() if one.collection_no == collection_no)
        field = source.definition.slots[slot]
        found = [
            (str(one.data.get(str(field))), one.address.record_id)
            for one in self.records.values()
            if isinstance(one, Record)
            and one.address.collection_no == collection_no
            and one.deleted_at is None
            and one.address.record_id not in besides
        ]
        return [pair for master in masters for pair in _first(found, master, limit)]


def _first(found: list[tuple[str, str]], master: str, limit: int) -> list[tuple[str, str]]:
    return [pair for pair in found if pair[0] == master][:limit]
