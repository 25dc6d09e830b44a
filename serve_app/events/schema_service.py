"""Schemas on their way in: looked at before they are kept."""

import asyncio
from typing import NamedTuple

from starlette.requests import Request

from core.events.event_type import Refusal, SchemaType, Version, parse_version
from core.shared.errors import InvalidError
from handlers.schemas.interface import Compiled, Unusable
from serve_app.events.event_type_models import MIME_TYPES, SchemaRequest, SchemaSource
from serve_app.events.event_type_rendering import kept_form, refused
from serve_app.events.event_type_sync_models import DeclaredTypeRequest, EventTypeSyncRequest
from serve_app.http.permissions import caller_of, replica_of
from services.events.validator import Conformity
from storage.events import event_type_sync, event_types, schemas
from storage.events.event_type_sync import Declaration, DeclaredType, DeclaredVersion, Prints
from storage.events.event_types import Draft
from storage.events.schemas import SchemaDraft

COMPILE_ALL_SECONDS = 60.0


def conformity_of(request: Request) -> Conformity:
    """What holds events against their types, in the replica that serves this request."""
    return replica_of(request).conformity


def new_id(request: Request, prefix: str) -> str:
    """An id for something made now."""
    return f"{prefix}_{replica_of(request).new_id()}"


def version_of(text: str) -> Version:
    """The version that a text names."""
    version = parse_version(text)
    if version is None:
        raise refused(Refusal.VERSION_NOT_FOUND)
    return version


async def draft_of(request: Request, version: Version, source: SchemaSource) -> Draft:
    """A version ready to be kept.

    Raises:
        InvalidError: Its schema cannot be used, or there is none.
    """
    return await _draft(request, version, await _found(request, source))


async def declaration_of(
    request: Request, application: str, wish: EventTypeSyncRequest
) -> Declaration:
    """What an application declares, ready to be made so; schemas that are kept are not made anew.

    Raises:
        InvalidError: A type is another application's, or a schema cannot be used.
    """
    for index, one in enumerate(wish.event_types):
        if not one.code.startswith(f"{application}:"):
            raise InvalidError(f"eventTypes[{index}].code", f"a code that begins {application}:")
    tenant, codes = caller_of(request).tenant, [one.code for one in wish.event_types]
    kept = await replica_of(request).database.ask(event_type_sync.prints, tenant, codes)
    limit = asyncio.timeout(COMPILE_ALL_SECONDS)
    try:
        async with limit:
            types = [
                await _declared(request, one, kept, f"eventTypes[{index}]")
                for index, one in enumerate(wish.event_types)
            ]
    except TimeoutError:
        if not limit.expired():
            raise
        expected = f"schemas that are compiled within {COMPILE_ALL_SECONDS:g} s together"
        raise InvalidError("eventTypes", expected) from None
    return Declaration(
        application=application,
        types=types,
        removes=wish.remove_unlisted,
        is_rehearsal=wish.dry_run,
    )


async def schema_of(request: Request, wish: SchemaRequest) -> SchemaDraft:
    """A schema by itself, ready to be kept.

    Raises:
        InvalidError: It cannot be used, or says it is for what does not exist.
    """
    event_type_id, version = await _linked(request, wish)
    await _usable(request, wish.schema_type, wish.content, "content")
    return SchemaDraft(
        name=wish.name,
        description=wish.description,
        mime_type=wish.mime_type or MIME_TYPES[wish.schema_type],
        schema_type=wish.schema_type,
        content=wish.content,
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
    request: Request, wish: DeclaredTypeRequest, kept: Prints, place: str
) -> DeclaredType:
    versions = []
    for index, one in enumerate(wish.versions):
        found = await _found(request, one, f"{place}.versions[{index}].")
        version = version_of(one.version)
        made_of = event_type_sync.print_of(*found[:3])
        same = kept.get((wish.code, version)) == made_of
        draft = None if same else await _draft(request, version, found)
        versions.append(
            DeclaredVersion(version=version, status=one.status, print=made_of, draft=draft)
        )
    return DeclaredType(
        new=wish.to_new(new_id(request, "evt")),
        validation=wish.validation,
        versions=tuple(versions),
    )


async def _found(request: Request, source: SchemaSource, place: str = "") -> _Found:
    if source.schema_id is None:
        mime_type = source.mime_type or MIME_TYPES[source.schema_type]
        return _Found(source.schema_type, mime_type, source.definition, f"{place}schema")
    tenant = caller_of(request).tenant
    named = await replica_of(request).database.ask(schemas.read, tenant, source.schema_id)
    if named is None or named.content is None:
        raise InvalidError(f"{place}schemaId", "a schema that exists")
    return _Found(named.schema_type, named.mime_type, named.content, f"{place}schemaId")


async def _draft(request: Request, version: Version, found: _Found) -> Draft:
    compiled = await _usable(request, found.schema_type, found.text, found.field)
    return Draft(
        version=version,
        mime_type=found.mime_type,
        schema_type=found.schema_type,
        schema_text=found.text,
        compiled=kept_form(compiled, found.text),
        digest=compiled.key,
        weight=compiled.weight,
    )


async def _usable(request: Request, kind: SchemaType, text: str, field: str) -> Compiled:
    tenant = caller_of(request).tenant
    outcome = await conformity_of(request).checks.compile(tenant, kind, text)
    if isinstance(outcome, Unusable):
        raise InvalidError(field, outcome.reason)
    return outcome


async def _linked(request: Request, wish: SchemaRequest) -> tuple[str | None, str | None]:
    """The id of the event type that a schema is for, and the version of it."""
    if wish.event_type_id is None:
        return None, None
    tenant = caller_of(request).tenant
    found = await replica_of(request).database.ask(event_types.read, tenant, wish.event_type_id)
    if found is None:
        raise InvalidError("eventTypeId", "an event type that exists")
    if wish.version is None:
        return found.event_type_id, None
    version = parse_version(wish.version)
    if version not in found.life.versions:
        raise InvalidError("version", f"a version that {found.code} has")
    return found.event_type_id, str(version)
