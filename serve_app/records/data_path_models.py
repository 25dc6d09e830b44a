"""Data paths as callers send them, and what they lead to."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from core.records.collection import COLLECTION_NAME
from core.records.data_path import MAX_PATH_CHARS
from core.records.field import FieldType
from core.records.field_tree import DEFAULT_TREE_DEPTH, MAX_TREE_DEPTH
from core.records.path_batch import Root
from core.records.path_validator import DataPathValidation
from serve_app.http.fields import TSID, optional
from serve_app.http.models import View, WireModel

MAX_PATHS = 100

CollectionKey = Annotated[
    str,
    Field(
        pattern=rf"^(?:col_{TSID}|{COLLECTION_NAME})$",
        description="The id or the name of a collection.",
        examples=["orders"],
    ),
]
RecordId = Annotated[str, Field(min_length=1, max_length=200)]
PathText = Annotated[str, Field(max_length=MAX_PATH_CHARS, examples=["order_id.customer_id.email"])]


class SampleRecord(WireModel):
    """A record to try something with: the id of a stored one, or all of one."""

    record_id: RecordId | None = None
    record: dict[str, Any] | None = Field(None, description="A record as JSON, instead of an id.")

    @model_validator(mode="after")
    def _check_record(self) -> Self:
        if self.record_id is not None and self.record is not None:
            raise ValueError("recordId or record, not both")
        return self

    @property
    def root(self) -> Root | None:
        return self.record if self.record_id is None else self.record_id


class FieldTreeQuery(WireModel):
    """How much of the tree is shown."""

    depth: int = Field(
        DEFAULT_TREE_DEPTH, ge=1, le=MAX_TREE_DEPTH, description="Levels; 1 is the fields alone."
    )


class FieldNodeView(WireModel):
    """A field that data paths can read, and what it leads to."""

    name: str
    type: FieldType
    is_relationship: bool
    target_collection_id: str | None = optional("The id of the collection that it leads to.")
    target_collection: str | None = optional("The name of that collection.")
    children: list["FieldNodeView"] | None = optional("The fields of that collection.")


class FieldTreeView(View):
    """The fields that data paths from a collection can read."""

    collection_id: str
    collection: str
    depth: int
    fields: list[FieldNodeView]
    system_fields: list[str] = Field(description="Fields that every record has beside its own.")
    is_truncated: bool = Field(description="Whether relationships were left closed for its size.")


class PathValidationRequest(WireModel):
    """A data path to validate, or several."""

    root_collection_id: CollectionKey
    expression: PathText | None = None
    expressions: list[PathText] | None = Field(None, min_length=1, max_length=MAX_PATHS)

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if (self.expression is None) == (self.expressions is None):
            raise ValueError("either expression or expressions")
        return self


class PathValidationResult(View):
    """Where a path leads, or why it leads nowhere."""

    expression: str
    valid: bool
    error_message: str | None = None
    error_segment: int | None = Field(None, description="Which segment is wrong, from 0.")
    terminal_field_name: str | None = None
    terminal_field_type: FieldType | None = Field(
        None, description="null for system fields and results of scripts."
    )
    terminal_collection_name: str | None = None

    @classmethod
    def of_path(cls, expression: str, found: DataPathValidation) -> Self:
        return cls(expression=expression, **found._asdict())


class PathValidationList(View):
    """The answer to several paths, in their order."""

    valid: bool = Field(description="Whether all are.")
    items: list[PathValidationResult]


class PathResolutionRequest(SampleRecord):
    """Data paths to resolve of a record."""

    root_collection_id: CollectionKey
    expressions: list[PathText] = Field(min_length=1, max_length=MAX_PATHS)
    provenance: bool = Field(False, description="Whether to name the records on the way.")

    @model_validator(mode="after")
    def _check_root(self) -> Self:
        if self.root is None:
            raise ValueError("recordId, or a record")
        return self


class PathStepView(WireModel):
    """A record that a path came through."""

    collection: str
    record_id: str
    version: int


class PathResolutionView(View):
    """The values that paths lead to; null where a record on the way is missing."""

    values: dict[str, Any]
    provenance: dict[str, list[PathStepView]] | None = optional(
        "The stored records that each path came through, as far as it came."
    )
