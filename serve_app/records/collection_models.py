"""Collections as callers send and get them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from pydantic import AliasPath, Field

from core.records.collection import COLLECTION_NAME, CollectionStatus, assign_slots
from core.records.definitions.changes import ChangeSeverity
from core.records.definitions.field_rules import MAX_DESCRIPTION_CHARS, MAX_VALUES
from core.records.field import MAX_FIELDS, FieldDefinition, FieldType, RollupFunction
from core.shared.errors import InvalidError
from serve_app.http.fields import TSID, Cursor, Description, IsoTime, Limit
from serve_app.http.models import Patch, View, WireModel
from serve_app.http.path_types import id_or_code
from serve_app.http.preconditions import VersionedView
from storage.records.collections import CollectionRow

NAMED = rf"^(?:col_{TSID}|{COLLECTION_NAME})$"
NamedCollection = Annotated[str, id_or_code(NAMED, "orders")]
Bound = Annotated[int | float, Field(allow_inf_nan=False)]


def setting(default: Any, description: str | None = None, **more: Any) -> Any:
    """Declare a setting of a field, which is shown where it differs from the default."""
    return Field(default, description=description, exclude_if=lambda v: v == default, **more)


class RollupModel(WireModel):
    """What a ROLLUP_SUMMARY computes of the records that lead to its record."""

    collection: str
    relationship: str = Field(description="The field of that collection that leads here.")
    function: RollupFunction
    field: str | None = setting(None, "The field that is summed up; not for COUNT.")


class FieldModel(WireModel):
    """A field of the records of a collection. Which settings it has depends on its type."""

    name: str = Field(examples=["customer_id"])
    type: FieldType
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] | None = setting(None)
    required: bool = setting(default=False)
    unique: bool = setting(False, "No two records of the collection have the same value.")
    indexed: bool = setting(False, "An index serves listings by this field; three fields at most.")
    default: Any = setting(None, "The value of a new record that is given none.")
    values: list[str] = setting([], "What a picklist or a STRING may hold.", max_length=MAX_VALUES)
    min: Bound | None = setting(None, "Of a number, or of the length of a text or list.")
    max: Bound | None = setting(None, "Of a number, or of the length of a text or list.")
    pattern: str | None = setting(None, "An RE2 expression that the whole text matches.")
    target: str | None = setting(None, "The collection that a relationship leads to.")
    formula: str | None = setting(None, examples=["quantity * price"])
    rollup: RollupModel | None = setting(None)
    format: str | None = setting(None, "How an AUTO_NUMBER is written.", examples=["INV-{0000}"])


class CollectionFields(WireModel):
    """What a caller can set of a collection."""

    description: Description | None = None
    fields: list[FieldModel] = Field(max_length=MAX_FIELDS)
    note: Annotated[str, Field(max_length=1_000)] | None = Field(
        None, description="Why this version is made."
    )


class CollectionRequest(CollectionFields):
    """A collection to create."""

    name: str = Field(pattern=f"^{COLLECTION_NAME}$", examples=["orders"])


class CollectionReplacement(CollectionFields):
    """All of a collection; what is left out gets its default."""

    name: str | None = Field(None, description="Cannot change.")

    def edit(self, row: CollectionRow) -> CollectionRow:
        """Return the collection with these values; a field keeps its index."""
        if self.name not in (None, row.name):
            raise InvalidError("name", f"{row.name}: the name cannot change")
        return with_fields(replace(row, description=self.description), self.fields)


class CollectionPatch(Patch, CollectionFields):
    """What to change; `fields` replaces all fields."""

    def edit(self, row: CollectionRow) -> CollectionRow:
        """Return the collection with these values; a field keeps its index."""
        if "description" in self.model_fields_set:
            row = replace(row, description=self.description)
        return with_fields(row, self.fields) if "fields" in self.model_fields_set else row


class CollectionQuery(WireModel):
    """Which collections a listing shows."""

    status: CollectionStatus | None = None
    limit: Limit = 100
    cursor: Cursor = None


class CollectionVersionQuery(WireModel):
    """A page of the versions of a collection."""

    limit: Limit = 100
    cursor: Cursor = None


def fields_of(models: Sequence[FieldModel]) -> tuple[FieldDefinition, ...]:
    """Convert fields as callers send them."""
    sent = [model.model_dump(by_alias=True) for model in models]
    return msgspec.convert(sent, tuple[FieldDefinition, ...])


def with_fields(row: CollectionRow, models: Sequence[FieldModel]) -> CollectionRow:
    """Return a collection with other fields; those that were indexed keep their columns."""
    fields = fields_of(models)
    slots = assign_slots(fields, row.definition.slots)
    return replace(
        row, definition=msgspec.structs.replace(row.definition, fields=fields, slots=slots)
    )


class CollectionSummaryView(View):
    """A collection without its fields."""

    id: str = Field(validation_alias="collection_id")
    name: str
    description: str | None
    field_count: int
    version: int
    status: CollectionStatus
    created_at: IsoTime
    updated_at: IsoTime


class CollectionView(VersionedView):
    """A collection. Its ETag is its version."""

    id: str = Field(validation_alias="collection_id")
    name: str
    description: str | None
    fields: list[FieldModel] = Field(validation_alias=AliasPath("definition", "fields"))
    version: int
    status: CollectionStatus
    index_building: bool = Field(
        validation_alias="is_building",
        description="Whether an index is being built: listings do without it until then.",
    )
    created_at: IsoTime
    updated_at: IsoTime


class CollectionVersionView(View):
    """When and by whom a version was made."""

    version: int
    note: str | None
    created_by: str | None = Field(description="The prefix of the key that made it.")
    created_at: IsoTime


class CollectionVersionDetail(CollectionVersionView):
    """A version of a collection."""

    fields: list[FieldModel]


class DefinitionChangeView(View):
    """What changes for a field, and what follows from it."""

    field: str
    kind: str
    severity: ChangeSeverity
    sentence: str


class MisfitView(View):
    """A stored record that could not be written as it is."""

    record_id: str
    field: str
    expected: str


class PreviewView(View):
    """What a change of a collection would break. Nothing is changed."""

    breaking: bool
    changes: list[DefinitionChangeView]
    records_checked: int
    complete: bool = Field(description="Whether all records were checked.")
    misfits: int = Field(description="How many of them do not fit.")
    examples: list[MisfitView]
