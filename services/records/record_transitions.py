"""The transitions of records, with collections compiled once for each definition."""

from collections.abc import Mapping
from typing import Any

from core.records.collection import CollectionDefinition
from core.records.messages import SaveAllRecords, SaveRecord
from core.records.record import Collection
from core.records.record_schema import RecordSchema, compile_collection
from core.records.transitions import RecordTransitions
from core.shared.entities import Apply
from handlers.filters.expressions import compile_expression
from handlers.filters.patterns import compile_pattern

MAX_SCHEMAS = 1_000


class SchemaCache:
    """The schemas of the collections that were used lately."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[CollectionDefinition, RecordSchema]] = {}

    def schema_of(self, collection: Collection) -> RecordSchema:
        number, definition = collection.collection_no, collection.definition
        known = self._known.get(number)
        if known is not None and known[0] is definition:
            return known[1]
        schema = (
            known[1]
            if known is not None and known[0] == definition
            else compile_collection(number, definition, compile_expression, compile_pattern)
        )
        self._known.pop(number, None)
        self._known[number] = (definition, schema)
        if len(self._known) > MAX_SCHEMAS:
            del self._known[next(iter(self._known))]
        return schema


def record_transitions(change_topic: str | None = None) -> Mapping[type[Any], Apply[Any]]:
    """Return which function decides a message to a record, by the type of the message."""
    apply = RecordTransitions(SchemaCache().schema_of, change_topic=change_topic).apply
    return {SaveRecord: apply, SaveAllRecords: apply}
