"""Schemas on their way in: looked at before they are kept."""

from starlette.requests import Request

from core.errors import InvalidError
from core.event_type import SchemaType, Version, parse_version
from handlers.schemas.interface import Compiled, Unusable
from serve_app.conformity import Conformity
from serve_app.guards import caller_of, replica_of
from serve_app.wire.event_type_mapper import kept_form
from serve_app.wire.event_types import MIME_TYPES, SchemaRequest, SchemaSource
from storage import event_types, schemas
from storage.event_types import Draft
from storage.schemas import SchemaDraft


def conformity_of(request: Request) -> Conformity:
    """What holds events against their types, in the replica that serves this request."""
    return replica_of(request).conformity


def new_id(request: Request, prefix: str) -> str:
    """An id for something made now."""
    return f"{prefix}_{replica_of(request).new_id()}"


async def draft_of(request: Request, version: Version, source: SchemaSource) -> Draft:
    """A version ready to be kept.

    Raises:
        InvalidError: Its schema cannot be used, or there is none.
    """
    kind, mime_type, text, field = await _found(request, source)
    compiled = await _usable(request, kind, text, field)
    return Draft(
        version=version,
        mime_type=mime_type,
        schema_type=kind,
        schema_text=text,
        compiled=kept_form(compiled, text),
        digest=compiled.key,
        weight=compiled.weight,
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


async def _found(request: Request, source: SchemaSource) -> tuple[SchemaType, str, str, str]:
    """Language, mime type and text of what was given or named, and the field that did so."""
    if source.schema_id is None:
        mime_type = source.mime_type or MIME_TYPES[source.schema_type]
        return source.schema_type, mime_type, source.definition, "schema"
    tenant = caller_of(request).tenant
    named = await replica_of(request).database.ask(schemas.read, tenant, source.schema_id)
    if named is None or named.content is None:
        raise InvalidError("schemaId", "a schema that exists")
    return named.schema_type, named.mime_type, named.content, "schemaId"


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
