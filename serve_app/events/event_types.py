"""Event types: registration, versions and their schemas."""

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import (
    CODE_LENGTH,
    SEGMENT,
    VERSION,
    EventTypeRefusal,
    SchemaType,
    deprecate,
    finalise,
    refuse_archive,
    refuse_delete,
    refuse_rewrite,
    refuse_version,
)
from core.shared.quotas import Quota
from serve_app.events.event_type_models import (
    TYPE_NAME,
    EventTypePatch,
    EventTypeQuery,
    EventTypeRequest,
    EventTypeView,
    SchemaSource,
    SegmentList,
    VersionRequest,
    VersionView,
    VersionWithSchema,
)
from serve_app.events.event_type_sync_models import EventTypeSyncRequest, EventTypeSyncView
from serve_app.events.schema_service import declared_types_of, draft_of, version_of
from serve_app.http.declarations import Application
from serve_app.http.openapi import describe_responses
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter, refuse, unless_refused
from storage.events import event_type_sync, event_types
from storage.events.event_types import EventType
from storage.postgres.reconciler import Synced

MAX_SEGMENTS = 1_000
# The media types of schemas themselves.
SCHEMA_MEDIA_TYPES = {
    SchemaType.JSON_SCHEMA: "application/schema+json",
    SchemaType.XSD: "application/xml",
    SchemaType.PROTO: "text/plain",
}

TypeName = Annotated[
    str,
    Path(
        alias="code",
        pattern=TYPE_NAME,
        max_length=CODE_LENGTH,
        description="The code or the id.",
        examples=["shop:orders:order:created"],
    ),
]
VersionName = Annotated[str, Path(alias="version", pattern=VERSION, examples=["1.0"])]
SegmentFilter = Annotated[str | None, Query(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH)]

router = HttpRouter("/api/event-types", tag="event types", access="event_types")
sync_router = HttpRouter("/api/applications", tag="event types")


@router.post(refuses=EventTypeRefusal, status=201)
async def create_event_type(body: EventTypeRequest, context: Context) -> EventTypeView:
    """Register an event type."""
    await context.replica.count_quotas.check(context.tenant, Quota.EVENT_TYPES)
    if not await context.write(event_types.create, body.to_new(context.new_id("evt"))):
        refuse(EventTypeRefusal.CODE_EXISTS)
    return _changed(context, await _read(context, body.code))


@router.get()
async def list_event_types(
    query: Annotated[EventTypeQuery, Query()], context: Context
) -> Page[EventTypeView]:
    """List the tenant's event types by code."""
    rows = await context.list(event_types.page, query.to_filter(), query.cursor or "", query.limit)
    return Page[EventTypeView].of_rows(rows, query.limit, lambda row: row.code)


@router.get("/filters/applications")
async def list_applications(context: Context) -> SegmentList:
    """List the applications that have event types."""
    return SegmentList(items=await context.read(event_types.applications, MAX_SEGMENTS))


@router.get("/filters/subdomains")
async def list_subdomains(context: Context, application: SegmentFilter = None) -> SegmentList:
    """List the subdomains of an application, or of all."""
    return SegmentList(items=await context.read(event_types.subdomains, application, MAX_SEGMENTS))


@router.get("/filters/aggregates")
async def list_aggregates(
    context: Context, application: SegmentFilter = None, subdomain: SegmentFilter = None
) -> SegmentList:
    """List the aggregates of an application and a subdomain, or of all."""
    found = await context.read(event_types.aggregates, application, subdomain, MAX_SEGMENTS)
    return SegmentList(items=found)


@router.get("/{code}", refuses=EventTypeRefusal)
async def show_event_type(code: TypeName, context: Context) -> EventTypeView:
    """Show one event type with its versions."""
    return EventTypeView.of(await _read(context, code))


@router.patch("/{code}", refuses=(404,))
async def change_event_type(
    code: TypeName, body: EventTypePatch, context: Context
) -> EventTypeView:
    """Change the name of an event type, or what happens to events that do not match."""
    if not await context.read(event_types.change, code, body.to_change()):
        refuse(EventTypeRefusal.EVENT_TYPE_NOT_FOUND)
    return _changed(context, await _read(context, code))


@router.delete("/{code}", refuses=EventTypeRefusal)
async def drop_event_type(code: TypeName, context: Context) -> None:
    """Remove an event type that is archived, or that never had a version in force."""
    dropped = await context.write(event_types.drop, code, refuse_delete)
    context.replica.event_validator.forget(context.tenant, dropped.code)


@router.post("/{code}/archive", refuses=EventTypeRefusal)
async def archive_event_type(code: TypeName, context: Context) -> EventTypeView:
    """Put an event type out of use: all of its versions are deprecated."""
    return _changed(context, await context.write(event_types.archive, code, refuse_archive))


@router.post("/{code}/schemas", refuses=EventTypeRefusal, status=201)
async def add_version(code: TypeName, body: VersionRequest, context: Context) -> EventTypeView:
    """Add a version with its schema; it is FINALISING."""
    await context.replica.count_quotas.check(context.tenant, Quota.SCHEMAS)
    draft = await draft_of(context, version_of(body.version), body)
    done = await context.write(event_types.put_version, code, draft, refuse_version)
    return _changed(context, done)


@router.put("/{code}/schemas/{version}", refuses=EventTypeRefusal)
async def rewrite_version(
    code: TypeName, version: VersionName, body: SchemaSource, context: Context
) -> EventTypeView:
    """Give a version that is FINALISING another schema."""
    draft = await draft_of(context, version_of(version), body)
    done = await context.read(event_types.put_version, code, draft, refuse_rewrite)
    return _changed(context, unless_refused(done))


@router.post("/{code}/schemas/{version}/finalise", refuses=EventTypeRefusal)
async def finalise_version(code: TypeName, version: VersionName, context: Context) -> EventTypeView:
    """Put a version in force; the one of the same major that was CURRENT becomes DEPRECATED."""
    done = await context.write(event_types.move_version, code, version_of(version), finalise)
    return _changed(context, done)


@router.post("/{code}/schemas/{version}/deprecate", refuses=EventTypeRefusal)
async def deprecate_version(
    code: TypeName, version: VersionName, context: Context
) -> EventTypeView:
    """Deprecate a version: only events that name it are still checked against it."""
    done = await context.write(event_types.move_version, code, version_of(version), deprecate)
    return _changed(context, done)


def _with_raw(responses: dict[int | str, Any]) -> dict[int | str, Any]:
    """Add the schema's media types to the documented responses."""
    responses[200]["content"] = {kind: {"schema": {}} for kind in SCHEMA_MEDIA_TYPES.values()}
    return responses


@router.get(
    "/{code}/schemas/{version}",
    refuses=EventTypeRefusal,
    responses=_with_raw(describe_responses({200: VersionWithSchema})),
)
async def show_version(
    code: TypeName,
    version: VersionName,
    context: Context,
    raw: Annotated[bool, Query(description="The schema alone, as what it is.")] = False,
) -> VersionWithSchema | Response:
    """Show a version with its schema."""
    found, wanted = await _read(context, code), version_of(version)
    one = next((one for one in found.versions if one.version == wanted), None)
    text = await context.read(event_types.schema_text, found.code, wanted)
    if one is None or text is None:
        refuse(EventTypeRefusal.VERSION_NOT_FOUND)
    if raw:
        return Response(text, media_type=SCHEMA_MEDIA_TYPES[one.schema_type])
    values = VersionView.of(one).__dict__
    return VersionWithSchema.model_construct(**values, code=found.code, text=text)


async def _read(context: Context, name: str) -> EventType:
    found = await context.read(event_types.read, name)
    return found or refuse(EventTypeRefusal.EVENT_TYPE_NOT_FOUND)


def _changed(context: Context, row: EventType) -> EventTypeView:
    """Render a type after a change, and drop its cached schemas."""
    context.replica.event_validator.forget(context.tenant, row.code)
    return EventTypeView.of(row)


@sync_router.post(
    "/{application}/event-types/sync", needs=Permission.EVENT_TYPES_WRITE, refuses=(409,)
)
async def sync_event_types(
    application: Application, body: EventTypeSyncRequest, context: Context
) -> EventTypeSyncView:
    """Make an application's event types what it declares: all of it, or nothing changes."""
    declared = await declared_types_of(context, application, body.event_types)
    codes = [one.code for one in declared]
    quotas = context.replica.count_quotas
    added = await quotas.check_declared(context.tenant, Quota.EVENT_TYPES, codes)
    await quotas.check(context.tenant, Quota.SCHEMAS, added)
    options = body.to_options(application)
    done: Synced = await context.write(event_type_sync.sync, options, declared)
    context.replica.event_validator.clear()
    return EventTypeSyncView.of_result(options, done)
