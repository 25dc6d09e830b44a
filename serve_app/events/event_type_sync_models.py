"""Requests and responses for applications that declare their event types."""

from collections import Counter
from typing import Annotated, Self

from pydantic import Field, model_validator

from core.events.event_type import (
    CODE,
    CODE_LENGTH,
    MAX_VERSIONS,
    EventTypeCode,
    TypeSource,
    Validation,
    VersionStatus,
    parse_version,
)
from serve_app.events.event_type_models import SchemaSource, VersionText
from serve_app.http.fields import Description, DisplayName
from serve_app.http.models import View, WireModel
from storage.events.event_types import NewEventType

MAX_DECLARED_TYPES = 200


class DeclaredVersionRequest(SchemaSource):
    """A declared version of an event type."""

    version: VersionText
    status: VersionStatus | None = Field(
        None, description="Left out: as far as it is; a new one is FINALISING."
    )


class DeclaredTypeRequest(WireModel):
    """A declared event type."""

    code: Annotated[
        str, Field(pattern=CODE, max_length=CODE_LENGTH, examples=["shop:orders:order:created"])
    ]
    name: DisplayName
    description: Description | None = None
    client_scoped: bool = False
    validation: Validation | None = Field(
        None, description="Left out: as it is; enforce for a new one."
    )
    versions: Annotated[list[DeclaredVersionRequest], Field(max_length=MAX_VERSIONS)] = Field(
        default_factory=list, description="Versions that are not listed stay."
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        parsed = [(parse_version(one.version), one.status) for one in self.versions]
        if len({version for version, _ in parsed}) < len(parsed):
            raise ValueError("each version once")
        current = Counter(v.major for v, s in parsed if v and s is VersionStatus.CURRENT)
        if current and max(current.values()) > 1:
            raise ValueError("one CURRENT version of each major")
        return self

    def to_new(self, event_type_id: str) -> NewEventType:
        return NewEventType(
            event_type_id=event_type_id,
            code=EventTypeCode(*self.code.split(":")),
            name=self.name,
            description=self.description,
            source=TypeSource.CODE,
            client_scoped=self.client_scoped,
            validation=self.validation or Validation.ENFORCE,
        )


class EventTypeSyncRequest(WireModel):
    """All event types of an application."""

    event_types: Annotated[list[DeclaredTypeRequest], Field(max_length=MAX_DECLARED_TYPES)]
    remove_unlisted: bool = Field(
        False,
        description="Remove the types that were declared before and are not listed: those that "
        "never were in force go, those whose versions are all DEPRECATED are archived.",
    )
    dry_run: bool = Field(False, description="Say what would happen, and change nothing.")

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        codes = [one.code for one in self.event_types]
        if len(set(codes)) < len(codes):
            raise ValueError("each code once")
        return self


class KeptType(View):
    """A type that is not declared and could not be removed."""

    code: str
    reason: str
    detail: str


class EventTypeSyncView(View):
    """The codes of the event types by what was done to them."""

    application: str
    dry_run: bool
    created: list[str]
    updated: list[str]
    unchanged: list[str]
    removed: list[str]
    archived: list[str]
    kept: list[KeptType]
