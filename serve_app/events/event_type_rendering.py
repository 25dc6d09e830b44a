"""Event types and schemas to the documents callers get, and refusals to problems."""

from core.events.event_type import EventTypeRefusal, SchemaType, parse_code
from core.shared.timestamps import to_iso
from handlers.schemas.interface import CompiledSchema
from serve_app.http.models import Document
from serve_app.http.problems import Problem, ProblemError
from storage.events.event_type_sync import (
    EventTypeDeclaration,
    EventTypeSyncRefusal,
    EventTypeSyncResult,
)
from storage.events.event_types import EventType, SpecVersion
from storage.events.schemas import Schema

# How a schema itself travels.
SCHEMA_MEDIA_TYPES = {
    SchemaType.JSON_SCHEMA: "application/schema+json",
    SchemaType.XSD: "application/xml",
    SchemaType.PROTO: "text/plain",
}

_MISSING = frozenset({EventTypeRefusal.EVENT_TYPE_NOT_FOUND, EventTypeRefusal.VERSION_NOT_FOUND})
_SENTENCES = {
    EventTypeRefusal.CODE_EXISTS: "an event type has this code already",
    EventTypeRefusal.VERSION_EXISTS: "the event type has this version already",
    EventTypeRefusal.INVALID_STATUS: "only a version that is FINALISING changes or becomes "
    "CURRENT, and an event type that is ARCHIVED takes no further one",
    EventTypeRefusal.CANNOT_DEPRECATE_FINALISING: "a version that never was CURRENT cannot be "
    "deprecated",
    EventTypeRefusal.ALREADY_DEPRECATED: "the version is DEPRECATED already",
    EventTypeRefusal.VERSIONS_NOT_DEPRECATED: "an event type is archived when all versions are "
    "DEPRECATED",
    EventTypeRefusal.ALREADY_ARCHIVED: "the event type is ARCHIVED already",
    EventTypeRefusal.CANNOT_DELETE: "an event type with versions that were CURRENT is archived "
    "first",
    EventTypeRefusal.EVENT_TYPE_NOT_FOUND: "there is no such event type",
    EventTypeRefusal.VERSION_NOT_FOUND: "the event type has no such version",
    EventTypeRefusal.TOO_MANY_VERSIONS: "the event type has as many versions as it may have",
    EventTypeRefusal.SCOPE_IS_FIXED: "clientScoped stays as it was registered",
    EventTypeRefusal.CHANGED_MEANWHILE: "somebody changed the event type meanwhile; try again",
}


def event_type_error(refusal: EventTypeRefusal) -> ProblemError:
    """The answer to a step that is not allowed."""
    status = 404 if refusal in _MISSING else 409
    return ProblemError(Problem(status=status, code=refusal.value, detail=_SENTENCES[refusal]))


def sync_error(refused: EventTypeSyncRefusal) -> ProblemError:
    """The answer to a declaration that is not allowed: which type, which version, and why."""
    where = refused.code if refused.version is None else f"{refused.code} {refused.version}"
    detail = f"{where}: {_SENTENCES[refused.refusal]}; nothing has changed"
    return ProblemError(Problem(status=409, code=refused.refusal.value, detail=detail))


def sync_document(declaration: EventTypeDeclaration, done: EventTypeSyncResult) -> Document:
    """What has become of which type."""
    return {
        "application": declaration.application,
        "dryRun": declaration.is_dry_run,
        "created": done.created,
        "updated": done.updated,
        "unchanged": done.unchanged,
        "removed": done.removed,
        "archived": done.archived,
        "kept": [
            {"code": code, "reason": refusal.value, "detail": _SENTENCES[refusal]}
            for code, refusal in done.kept.items()
        ],
    }


def event_type_document(found: EventType) -> Document:
    """A type with its versions."""
    code = parse_code(found.code)
    return {
        "id": found.event_type_id,
        "code": found.code,
        **(code._asdict() if code else {}),
        "name": found.name,
        "description": found.description,
        "status": found.status,
        "source": found.source,
        "clientScoped": found.client_scoped,
        "validation": found.validation,
        "specVersions": [version_document(one) for one in found.versions],
        "createdAt": to_iso(found.created_at),
        "updatedAt": to_iso(found.updated_at),
    }


def version_document(version: SpecVersion) -> Document:
    """A version without its schema."""
    return {
        "version": str(version.version),
        "status": version.status,
        "mimeType": version.mime_type,
        "schemaType": version.schema_type,
        "createdAt": to_iso(version.created_at),
        "updatedAt": to_iso(version.updated_at),
    }


def schema_document(schema: Schema) -> Document:
    """A schema by itself, with its content where that is known."""
    document: Document = {
        "id": schema.schema_id,
        "name": schema.name,
        "description": schema.description,
        "mimeType": schema.mime_type,
        "schemaType": schema.schema_type,
        "eventTypeId": schema.event_type_id,
        "version": schema.version,
        "createdAt": to_iso(schema.created_at),
        "updatedAt": to_iso(schema.updated_at),
    }
    return document if schema.content is None else document | {"content": schema.content}


def stored_form(compiled: CompiledSchema, text: str) -> bytes | None:
    """What is stored beside the text: nothing, if it is the same."""
    return None if compiled.form == text.encode() else compiled.form
