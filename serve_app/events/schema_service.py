"""Schemas of requests: found or read, compiled, and made ready to be stored."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from core.events.event_type import EventTypeRefusal, SchemaType, Version, parse_version
from core.shared.errors import InvalidError
from handlers.schemas.interface import CompiledSchema, InvalidSchema
from serve_app.events.event_type_models import MIME_TYPES, SchemaRequest, SchemaSource
from serve_app.events.event_type_sync_models import DeclaredTypeRequest
from serve_app.http.router import Context, refuse
from storage.events import event_type_sync, event_types, schemas
from storage.events.event_type_sync import DeclaredType, DeclaredVersion, Fingerprints
from storage.events.event_types import VersionDraft
from storage.events.schemas import SchemaDraft

COMPILE_ALL_SECONDS = 60.0


def version_of(text: str) -> Version:
    return parse_version(text) or refuse(EventTypeRefusal.VERSION_NOT_FOUND)


async def draft_of(context: Context, version: Version, source: SchemaSource) -> VersionDraft:
    """Make a version ready to be stored; raise InvalidError if its schema cannot be compiled."""
    return await _draft(context, version, await _found(context, source))


async def declared_types_of(
    context: Context, application: str, requests: Sequence[DeclaredTypeRequest]
) -> list[DeclaredType]:
    """Make an application's declaration ready; schemas that did not change are not compiled.

    Raises:
        InvalidError: A type is another application's, or a schema cannot be compiled.
    """
    for index, one in enumerate(requests):
        if not one.code.startswith(f"{application}:"):
            raise InvalidError(f"eventTypes[{index}].code", f"a code that begins {application}:")
    codes = [one.code for one in requests]
    kept = await context.read(event_type_sync.read_fingerprints, codes)
    limit = asyncio.timeout(COMPILE_ALL_SECONDS)
    try:
        async with limit:
            return [
                await _declared(context, one, kept, f"eventTypes[{index}]")
                for index, one in enumerate(requests)
            ]
    except TimeoutError:
        if not limit.expired():
            raise
        expected = f"schemas that are compiled within {COMPILE_ALL_SECONDS:g} s together"
        raise InvalidError("eventTypes", expected) from None


async def schema_draft_of(context: Context, body: SchemaRequest) -> SchemaDraft:
    """Make a schema ready to be stored; raise InvalidError if it cannot be compiled."""
    event_type_id, version = await _linked(context, body)
    await _usable(context, body.schema_type, body.content, "content")
    mime_type = body.mime_type or MIME_TYPES[body.schema_type]
    found = {"mime_type": mime_type, "event_type_id": event_type_id, "version": version}
    return SchemaDraft(**body.model_dump() | found)


class _Found(NamedTuple):
    """A schema and the field of the request that contains or names it."""

    schema_type: SchemaType
    mime_type: str
    text: str
    field: str


async def _declared(
    context: Context, body: DeclaredTypeRequest, kept: Fingerprints, place: str
) -> DeclaredType:
    versions = []
    for index, one in enumerate(body.versions):
        found = await _found(context, one, f"{place}.versions[{index}].")
        version = version_of(one.version)
        print_ = event_type_sync.fingerprint_of(*found[:3])
        same = kept.get((body.code, version)) == print_
        draft = None if same else await _draft(context, version, found)
        versions.append(
            DeclaredVersion(version=version, status=one.status, fingerprint=print_, draft=draft)
        )
    return DeclaredType(
        new=body.to_new(context.new_id("evt")),
        validation=body.validation,
        versions=tuple(versions),
    )


async def _found(context: Context, source: SchemaSource, place: str = "") -> _Found:
    if source.schema_id is None:
        mime_type = source.mime_type or MIME_TYPES[source.schema_type]
        return _Found(source.schema_type, mime_type, source.definition, f"{place}schema")
    named = await context.read(schemas.read, source.schema_id)
    if named is None or named.content is None:
        raise InvalidError(f"{place}schemaId", "a schema that exists")
    return _Found(named.schema_type, named.mime_type, named.content, f"{place}schemaId")


async def _draft(context: Context, version: Version, found: _Found) -> VersionDraft:
    compiled = await _usable(context, found.schema_type, found.text, found.field)
    return VersionDraft(
        version=version,
        mime_type=found.mime_type,
        schema_type=found.schema_type,
        schema_text=found.text,
        # The compiled form is stored only if it differs from the text.
        compiled=None if compiled.form == found.text.encode() else compiled.form,
        digest=compiled.key,
        weight=compiled.weight,
    )


async def _usable(context: Context, kind: SchemaType, text: str, field: str) -> CompiledSchema:
    outcome = await context.replica.event_validator.checks.compile(context.tenant, kind, text)
    if isinstance(outcome, InvalidSchema):
        raise InvalidError(field, outcome.reason)
    return outcome


async def _linked(context: Context, body: SchemaRequest) -> tuple[str | None, str | None]:
    """Return the id of the event type that a schema is for, and its version."""
    if body.event_type_id is None:
        return None, None
    found = await context.read(event_types.read, body.event_type_id)
    if found is None:
        raise InvalidError("eventTypeId", "an event type that exists")
    if body.version is None:
        return found.event_type_id, None
    version = parse_version(body.version)
    if version not in found.lifecycle.versions:
        raise InvalidError("version", f"a version that {found.code} has")
    return found.event_type_id, str(version)
