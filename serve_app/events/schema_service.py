"""Schemas on their way in: looked at before they are kept."""

import asyncio
from typing import NamedTuple

from starlette.requests import Request

from core.events.event_type import EventTypeRefusal, SchemaType, Version, parse_version
from core.shared.errors import InvalidError
from handlers.schemas.interface import CompiledSchema, InvalidSchema
from serve_app.events.event_type_models import MIME_TYPES, SchemaRequest, SchemaSource
from serve_app.events.event_type_rendering import event_type_error, stored_form
from serve_app.events.event_type_sync_models import DeclaredTypeRequest, EventTypeSyncRequest
from serve_app.http.permissions import caller_of, replica_of
from services.events.validator import EventValidator
from storage.events import event_type_sync, event_types, schemas
from storage.events.event_type_sync import (
    DeclaredType,
    DeclaredVersion,
    EventTypeDeclaration,
    Fingerprints,
)
from storage.events.event_types import VersionDraft
from storage.events.schemas import SchemaDraft

COMPILE_ALL_SECONDS = 60.0


def validator_of(request: Request) -> EventValidator:
    """What holds events against their types, in the replica that serves this request."""
    return replica_of(request).event_validator


def new_id(request: Request, prefix: str) -> str:
    """An id for something made now."""
    return f"{prefix}_{replica_of(request).new_id()}"


def version_of(text: str) -> Version:
    """The version that a text names."""
    version = parse_version(text)
    if version is None:
        raise event_type_error(EventTypeRefusal.VERSION_NOT_FOUND)
    return version


async def draft_of(request: Request, version: Version, source: SchemaSource) -> VersionDraft:
    """A version ready to be kept.

    Raises:
        InvalidError: Its schema cannot be used, or there is none.
    """
    return await _draft(request, version, await _found(request, source))


async def declaration_of(
    request: Request, application: str, body: EventTypeSyncRequest
) -> EventTypeDeclaration:
    """What an application declares, ready to be made so; schemas that are kept are not made anew.

    Raises:
        InvalidError: A type is another application's, or a schema cannot be used.
    """
    for index, one in enumerate(body.event_types):
        if not one.code.startswith(f"{application}:"):
            raise InvalidError(f"eventTypes[{index}].code", f"a code that begins {application}:")
    tenant, codes = caller_of(request).tenant, [one.code for one in body.event_types]
    kept = await replica_of(request).database.query(
        event_type_sync.read_fingerprints, tenant, codes
    )
    limit = asyncio.timeout(COMPILE_ALL_SECONDS)
    try:
        async with limit:
            types = [
                await _declared(request, one, kept, f"eventTypes[{index}]")
                for index, one in enumerate(body.event_types)
            ]
    except TimeoutError:
        if not limit.expired():
            raise
        expected = f"schemas that are compiled within {COMPILE_ALL_SECONDS:g} s together"
        raise InvalidError("eventTypes", expected) from None
    return EventTypeDeclaration(
        application=application,
        types=types,
        removes=body.remove_unlisted,
        is_dry_run=body.dry_run,
    )


async def schema_draft_of(request: Request, body: SchemaRequest) -> SchemaDraft:
    """A schema by itself, ready to be kept.

    Raises:
        InvalidError: It cannot be used, or says it is for what does not exist.
    """
    event_type_id, version = await _linked(request, body)
    await _usable(request, body.schema_type, body.content, "content")
    return SchemaDraft(
        name=body.name,
        description=body.description,
        mime_type=body.mime_type or MIME_TYPES[body.schema_type],
        schema_type=body.schema_type,
        content=body.content,
        event_type_id=event_type_id,
        version=version,
    )


class _Found(NamedTuple):
    """A schema that was given or named, and the field that did so."""

    schema_type: SchemaType
    mime_type: str
    text: str
    field: str


async def _declared(
    request: Request, body: DeclaredTypeRequest, kept: Fingerprints, place: str
) -> DeclaredType:
    versions = []
    for index, one in enumerate(body.versions):
        found = await _found(request, one, f"{place}.versions[{index}].")
        version = version_of(one.version)
        made_of = event_type_sync.fingerprint_of(*found[:3])
        same = kept.get((body.code, version)) == made_of
        draft = None if same else await _draft(request, version, found)
        versions.append(
            DeclaredVersion(version=version, status=one.status, fingerprint=made_of, draft=draft)
        )
    return DeclaredType(
        new=body.to_new(new_id(request, "evt")),
        validation=body.validation,
        versions=tuple(versions),
    )


async def _found(request: Request, source: SchemaSource, place: str = "") -> _Found:
    if source.schema_id is None:
        mime_type = source.mime_type or MIME_TYPES[source.schema_type]
        return _Found(source.schema_type, mime_type, source.definition, f"{place}schema")
    tenant = caller_of(request).tenant
    named = await replica_of(request).database.query(schemas.read, tenant, source.schema_id)
    if named is None or named.content is None:
        raise InvalidError(f"{place}schemaId", "a schema that exists")
    return _Found(named.schema_type, named.mime_type, named.content, f"{place}schemaId")


async def _draft(request: Request, version: Version, found: _Found) -> VersionDraft:
    compiled = await _usable(request, found.schema_type, found.text, found.field)
    return VersionDraft(
        version=version,
        mime_type=found.mime_type,
        schema_type=found.schema_type,
        schema_text=found.text,
        compiled=stored_form(compiled, found.text),
        digest=compiled.key,
        weight=compiled.weight,
    )


async def _usable(request: Request, kind: SchemaType, text: str, field: str) -> CompiledSchema:
    tenant = caller_of(request).tenant
    outcome = await validator_of(request).checks.compile(tenant, kind, text)
    if isinstance(outcome, InvalidSchema):
        raise InvalidError(field, outcome.reason)
    return outcome


async def _linked(request: Request, body: SchemaRequest) -> tuple[str | None, str | None]:
    """The id of the event type that a schema is for, and the version of it."""
    if body.event_type_id is None:
        return None, None
    tenant = caller_of(request).tenant
    found = await replica_of(request).database.query(event_types.read, tenant, body.event_type_id)
    if found is None:
        raise InvalidError("eventTypeId", "an event type that exists")
    if body.version is None:
        return found.event_type_id, None
    version = parse_version(body.version)
    if version not in found.lifecycle.versions:
        raise InvalidError("version", f"a version that {found.code} has")
    return found.event_type_id, str(version)
