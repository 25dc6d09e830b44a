"""Requests and responses for applications that declare their event types."""

from collections import Counter
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from core.events import event_type
from core.events.event_type import EventTypeCode, TypeSource, Validation, VersionStatus
from serve_app.events.event_type_models import EventTypeCodeText, SchemaSource, VersionText
from serve_app.http.declarations import KeptView, SyncRequest, SyncView, each_code_once
from serve_app.http.fields import Description, DisplayName
from serve_app.http.models import WireModel
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

    code: EventTypeCodeText
    name: DisplayName
    description: Description | None = None
    client_scoped: bool = False
    validation: Validation | None = Field(
        None, description="Left out: as it is; enforce for a new one."
    )
    versions: Annotated[list[DeclaredVersionRequest], Field(max_length=event_type.MAX_VERSIONS)] = (
        Field(default_factory=list, description="Versions that are not listed stay.")
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        parsed = [(event_type.parse_version(one.version), one.status) for one in self.versions]
        if len({version for version, _ in parsed}) < len(parsed):
            raise ValueError("each version once")
        current = Counter(v.major for v, s in parsed if v and s is VersionStatus.CURRENT)
        if current and max(current.values()) > 1:
            raise ValueError("one CURRENT version of each major")
        return self

    def to_new(self, event_type_id: str) -> NewEventType:
        values = self.model_dump(exclude={"versions"}) | {
            "code": EventTypeCode(*self.code.split(":")),
            "validation": self.validation or Validation.ENFORCE,
        }
        return NewEventType(event_type_id=event_type_id, source=TypeSource.CODE, **values)


class EventTypeSyncRequest(SyncRequest):
    """All event types of an application."""

    event_types: Annotated[
        list[DeclaredTypeRequest],
        Field(max_length=MAX_DECLARED_TYPES),
        AfterValidator(each_code_once),
    ]
    remove_unlisted: bool = Field(
        False,
        description="Remove the types that were declared before and are not listed: those that "
        "never were in force go, those whose versions are all DEPRECATED are archived.",
    )


class KeptType(KeptView):
    """A type that is not declared and could not be removed."""


class EventTypeSyncView(SyncView):
    """The codes of the event types by what was done to them."""

    archived: list[str]
    kept: list[KeptType]
