"""Requests and responses of event types and schemas."""

import json
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    BeforeValidator,
    Field,
    WithJsonSchema,
    model_validator,
)

from core.events.event_type import (
    CODE,
    CODE_LENGTH,
    SEGMENT,
    VERSION,
    EventTypeCode,
    SchemaType,
    TypeSource,
    TypeStatus,
    Validation,
    VersionStatus,
)
from core.shared.media_types import JSON
from serve_app.http import fields
from serve_app.http.fields import Description, DisplayName, IsoTime, Limit
from serve_app.http.models import View, WireModel
from storage.events.event_types import NewEventType, TypeChange, TypeFilter
from storage.events.schemas import SchemaFilter

TYPE_NAME = rf"^(?:evt_{fields.TSID}|{SEGMENT}:{SEGMENT}:{SEGMENT}:{SEGMENT})$"
_MIME = r"^[A-Za-z0-9!#$&^_.+-]{1,63}/[A-Za-z0-9!#$&^_.+-]{1,63}$"

MIME_TYPES = {
    SchemaType.JSON_SCHEMA: JSON,
    SchemaType.XSD: "application/xml",
    SchemaType.PROTO: "application/x-protobuf",
}

MimeType = Annotated[
    str, Field(pattern=_MIME, description="Of the payloads. Default: what goes with schemaType.")
]
Segment = Annotated[str, Field(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH)]
VersionText = Annotated[str, Field(pattern=VERSION, examples=["1.0"])]


def _text_of(schema: Any) -> str:
    """Return the text of a schema; a JSON Schema may be given as JSON."""
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict | bool):
        raise ValueError("a text, or a JSON Schema as it is")  # noqa: TRY004  pydantic wants this
    return json.dumps(schema, allow_nan=False, ensure_ascii=False)


SchemaText = Annotated[
    Any,
    AfterValidator(_text_of),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "boolean"}]}),
]


EventTypeCodeText = Annotated[
    str, Field(pattern=CODE, max_length=CODE_LENGTH, examples=["shop:orders:order:created"])
]


class EventTypeRequest(WireModel):
    """An event type to register."""

    code: EventTypeCodeText
    name: DisplayName
    description: Description | None = None
    source: TypeSource = TypeSource.API
    client_scoped: bool = Field(
        False,
        description="Whether its events are about one client each, which they then must name in "
        "contextData clientId. Stays as it is.",
    )
    validation: Validation = Field(
        Validation.ENFORCE,
        description="What becomes of events that do not fit, once a version is CURRENT.",
    )

    def to_new(self, event_type_id: str) -> NewEventType:
        values = self.model_dump() | {"code": EventTypeCode(*self.code.split(":"))}
        return NewEventType(event_type_id=event_type_id, **values)


class EventTypePatch(WireModel):
    """Fields to change; those left out stay as they are."""

    name: DisplayName | None = None
    description: Description | None = Field(None, description="null clears it.")
    validation: Validation | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("at least one of name, description, validation")
        return self

    def to_change(self) -> TypeChange:
        return TypeChange(
            name=self.name,
            description=self.description,
            describes="description" in self.model_fields_set,
            validation=self.validation,
        )


class EventTypeQuery(WireModel):
    """Which event types a listing shows."""

    application: Segment | None = None
    subdomain: Segment | None = None
    aggregate: Segment | None = None
    status: TypeStatus | None = None
    source: TypeSource | None = None
    limit: Limit = 100
    cursor: Annotated[str, Field(pattern=CODE, max_length=CODE_LENGTH)] | None = Field(
        None, description="nextCursor of the page before."
    )

    def to_filter(self) -> TypeFilter:
        return TypeFilter(**self.model_dump(exclude={"limit", "cursor"}))


class SchemaSource(WireModel):
    """A schema: written here, or one of /api/schemas."""

    definition: SchemaText = Field(
        None, alias="schema", description="The text; a JSON Schema may stand here as it is."
    )
    schema_id: Annotated[str, Field(pattern=fields.SCHEMA_ID)] | None = None
    schema_type: SchemaType = SchemaType.JSON_SCHEMA
    mime_type: MimeType | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.definition is None) == (self.schema_id is None):
            raise ValueError("schema or schemaId, one of them")
        if self.schema_id is not None and self.model_fields_set & {"schema_type", "mime_type"}:
            raise ValueError("schemaType and mimeType are those of the schema that is named")
        return self


class VersionRequest(SchemaSource):
    """A version to add."""

    version: VersionText


class SchemaRequest(WireModel):
    """A schema to store for use by several versions."""

    name: DisplayName
    description: Description | None = None
    schema_type: SchemaType = SchemaType.JSON_SCHEMA
    mime_type: MimeType | None = None
    content: SchemaText = Field(description="The text; a JSON Schema may stand here as it is.")
    event_type_id: (
        Annotated[
            str, Field(pattern=TYPE_NAME, max_length=CODE_LENGTH, description="Its id or its code.")
        ]
        | None
    ) = None
    version: VersionText | None = Field(None, description="Of that event type.")

    @model_validator(mode="after")
    def _is_linked(self) -> Self:
        if self.version is not None and self.event_type_id is None:
            raise ValueError("version goes with eventTypeId")
        return self


class SchemaQuery(WireModel):
    """Which schemas a listing shows."""

    schema_type: SchemaType | None = None
    event_type_id: Annotated[str, Field(pattern=fields.TYPE_ID)] | None = None
    limit: Limit = 100
    cursor: Annotated[str, Field(pattern=rf"{fields.SCHEMA_ID}|^$")] = Field(
        "", description="nextCursor of the page before."
    )

    def to_filter(self) -> SchemaFilter:
        return SchemaFilter(schema_type=self.schema_type, event_type_id=self.event_type_id)


class VersionView(View):
    """A version of an event type."""

    version: Annotated[str, BeforeValidator(str)]
    status: VersionStatus
    mime_type: str
    schema_type: SchemaType
    created_at: IsoTime
    updated_at: IsoTime


class VersionWithSchema(VersionView):
    """A version with its schema."""

    code: str
    text: str = Field(serialization_alias="schema")


class EventTypeView(View):
    """An event type with its versions, oldest first."""

    id: str = Field(validation_alias="event_type_id")
    code: str
    application: str = Field(validation_alias=AliasPath("segments", "application"))
    subdomain: str = Field(validation_alias=AliasPath("segments", "subdomain"))
    aggregate: str = Field(validation_alias=AliasPath("segments", "aggregate"))
    event: str = Field(validation_alias=AliasPath("segments", "event"))
    name: str
    description: str | None
    status: TypeStatus
    source: TypeSource
    client_scoped: bool
    validation: Validation
    spec_versions: list[VersionView] = Field(validation_alias="versions")
    created_at: IsoTime
    updated_at: IsoTime


class SegmentList(View):
    """The segments to filter event types by."""

    items: list[str]


class SchemaView(View):
    """A schema without its content."""

    id: str = Field(validation_alias="schema_id")
    name: str
    description: str | None
    mime_type: str
    schema_type: SchemaType
    event_type_id: str | None
    version: str | None
    created_at: IsoTime
    updated_at: IsoTime


class SchemaWithContent(SchemaView):
    """A schema with its content."""

    content: str
