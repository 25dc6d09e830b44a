"""Event types: what kinds of events there are, and what each looks like."""

from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import (
    CODE_LENGTH,
    SEGMENT,
    VERSION,
    EventTypeRefusal,
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
    EventTypePage,
    EventTypePatch,
    EventTypeQuery,
    EventTypeRequest,
    EventTypeView,
    SchemaSource,
    SegmentList,
    VersionRequest,
    VersionWithSchema,
)
from serve_app.events.event_type_rendering import (
    SCHEMA_MEDIA_TYPES,
    event_type_document,
    event_type_error,
    version_document,
)
from serve_app.events.schema_service import draft_of, new_id, validator_of, version_of
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.events import event_types
from storage.events.event_types import EventType

MAX_SEGMENTS = 1_000

log = structlog.get_logger("event_types")

router = APIRouter(prefix="/api/event-types", tags=["event types"])

Reads = requires(Permission.EVENT_TYPES_READ)
Writes = requires(Permission.EVENT_TYPES_WRITE)

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


@router.post(
    "",
    dependencies=[Writes],
    operation_id="createEventType",
    status_code=201,
    responses=describe_responses({201: EventTypeView}, 409),
    openapi_extra=json_body(EventTypeRequest),
)
async def create_event_type(request: Request) -> Response:
    """Register an event type."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(EventTypeRequest, raw)
    await replica.count_quotas.check(caller.tenant, Quota.EVENT_TYPES)
    new = body.to_new(new_id(request, "evt"))
    if not await replica.database.query_once(event_types.create, caller.tenant, new):
        raise event_type_error(EventTypeRefusal.CODE_EXISTS)
    _note(request, "event_type.created", body.code)
    return await _shown(request, body.code, 201)


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listEventTypes",
    responses=describe_responses({200: EventTypePage}),
)
async def list_event_types(request: Request, query: Annotated[EventTypeQuery, Query()]) -> Response:
    """List the tenant's event types by code."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.listings.query(
        event_types.page, tenant, query.to_filter(), query.cursor or "", query.limit
    )
    more = found[-1].code if len(found) == query.limit else None
    return json_response({"items": [event_type_document(one) for one in found], "nextCursor": more})


@router.get(
    "/filters/applications",
    dependencies=[Reads],
    operation_id="listApplications",
    responses=describe_responses({200: SegmentList}),
)
async def list_applications(request: Request) -> Response:
    """List the applications that have event types."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(event_types.applications, tenant, MAX_SEGMENTS)
    return json_response({"items": found})


@router.get(
    "/filters/subdomains",
    dependencies=[Reads],
    operation_id="listSubdomains",
    responses=describe_responses({200: SegmentList}),
)
async def list_subdomains(request: Request, application: SegmentFilter = None) -> Response:
    """List the subdomains of an application, or of all."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(event_types.subdomains, tenant, application, MAX_SEGMENTS)
    return json_response({"items": found})


@router.get(
    "/filters/aggregates",
    dependencies=[Reads],
    operation_id="listAggregates",
    responses=describe_responses({200: SegmentList}),
)
async def list_aggregates(
    request: Request, application: SegmentFilter = None, subdomain: SegmentFilter = None
) -> Response:
    """List the aggregates of an application and a subdomain, or of all."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(
        event_types.aggregates, tenant, application, subdomain, MAX_SEGMENTS
    )
    return json_response({"items": found})


@router.get(
    "/{code}",
    dependencies=[Reads],
    operation_id="showEventType",
    responses=describe_responses({200: EventTypeView}, 404),
)
async def show_event_type(request: Request, code: TypeName) -> Response:
    """Show one event type with its versions."""
    return await _shown(request, code)


@router.patch(
    "/{code}",
    dependencies=[Writes],
    operation_id="changeEventType",
    responses=describe_responses({200: EventTypeView}, 404),
    openapi_extra=json_body(EventTypePatch),
)
async def change_event_type(request: Request, code: TypeName) -> Response:
    """Change how an event type is called, or what becomes of events that do not fit."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(EventTypePatch, raw)
    if not await replica.database.query(event_types.change, caller.tenant, code, body.to_change()):
        raise event_type_error(EventTypeRefusal.EVENT_TYPE_NOT_FOUND)
    _note(request, "event_type.changed", code)
    return await _shown(request, code, forget=True)


@router.delete(
    "/{code}",
    dependencies=[Writes],
    operation_id="dropEventType",
    status_code=204,
    responses=describe_responses({}, 404, 409),
)
async def drop_event_type(request: Request, code: TypeName) -> Response:
    """Remove an event type that is archived, or that never had a version in force."""
    replica, caller = replica_of(request), caller_of(request)
    dropped = await replica.database.query_once(
        event_types.drop, caller.tenant, code, refuse_delete
    )
    if isinstance(dropped, EventTypeRefusal):
        raise event_type_error(dropped)
    validator_of(request).forget(caller.tenant, dropped)
    _note(request, "event_type.dropped", dropped)
    return Response(status_code=204)


@router.post(
    "/{code}/archive",
    dependencies=[Writes],
    operation_id="archiveEventType",
    responses=describe_responses({200: EventTypeView}, 404, 409),
)
async def archive_event_type(request: Request, code: TypeName) -> Response:
    """Put an event type out of use: all of its versions are deprecated."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(
        event_types.archive, caller.tenant, code, refuse_archive
    )
    return _settled(request, "event_type.archived", done)


@router.post(
    "/{code}/schemas",
    dependencies=[Writes],
    operation_id="addVersion",
    status_code=201,
    responses=describe_responses({201: EventTypeView}, 404, 409),
    openapi_extra=json_body(VersionRequest),
)
async def add_version(request: Request, code: TypeName) -> Response:
    """Add a version with its schema; it is FINALISING."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(VersionRequest, raw)
    await replica.count_quotas.check(caller.tenant, Quota.SCHEMAS)
    draft = await draft_of(request, version_of(body.version), body)
    done = await replica.database.query_once(
        event_types.put_version, caller.tenant, code, draft, refuse_version
    )
    return _settled(request, "event_type.version_added", done, 201)


@router.put(
    "/{code}/schemas/{version}",
    dependencies=[Writes],
    operation_id="rewriteVersion",
    responses=describe_responses({200: EventTypeView}, 404, 409),
    openapi_extra=json_body(SchemaSource),
)
async def rewrite_version(request: Request, code: TypeName, version: VersionName) -> Response:
    """Give a version that is FINALISING another schema."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    draft = await draft_of(request, version_of(version), parse_as(SchemaSource, raw))
    done = await replica.database.query(
        event_types.put_version, caller.tenant, code, draft, refuse_rewrite
    )
    return _settled(request, "event_type.version_rewritten", done)


@router.post(
    "/{code}/schemas/{version}/finalise",
    dependencies=[Writes],
    operation_id="finaliseVersion",
    responses=describe_responses({200: EventTypeView}, 404, 409),
)
async def finalise_version(request: Request, code: TypeName, version: VersionName) -> Response:
    """Put a version in force; the one of the same major that was CURRENT becomes DEPRECATED."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(
        event_types.move_version, caller.tenant, code, version_of(version), finalise
    )
    return _settled(request, "event_type.version_finalised", done)


@router.post(
    "/{code}/schemas/{version}/deprecate",
    dependencies=[Writes],
    operation_id="deprecateVersion",
    responses=describe_responses({200: EventTypeView}, 404, 409),
)
async def deprecate_version(request: Request, code: TypeName, version: VersionName) -> Response:
    """Deprecate a version: only events that name it are still held against it."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(
        event_types.move_version, caller.tenant, code, version_of(version), deprecate
    )
    return _settled(request, "event_type.version_deprecated", done)


def _with_raw(responses: dict[int | str, Any]) -> dict[int | str, Any]:
    """The same, or the schema by itself."""
    responses[200]["content"] = {kind: {"schema": {}} for kind in SCHEMA_MEDIA_TYPES.values()}
    return responses


@router.get(
    "/{code}/schemas/{version}",
    dependencies=[Reads],
    operation_id="showVersion",
    responses=_with_raw(describe_responses({200: VersionWithSchema}, 404)),
)
async def show_version(
    request: Request,
    code: TypeName,
    version: VersionName,
    raw: Annotated[bool, Query(description="The schema alone, as what it is.")] = False,
) -> Response:
    """Show a version with its schema."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(event_types.read, tenant, code)
    if found is None:
        raise event_type_error(EventTypeRefusal.EVENT_TYPE_NOT_FOUND)
    wanted = version_of(version)
    one = next((one for one in found.versions if one.version == wanted), None)
    text = await replica.database.query(event_types.schema_text, tenant, found.code, wanted)
    if one is None or text is None:
        raise event_type_error(EventTypeRefusal.VERSION_NOT_FOUND)
    if raw:
        return Response(text, media_type=SCHEMA_MEDIA_TYPES[one.schema_type])
    return json_response(version_document(one) | {"code": found.code, "schema": text})


def _settled(
    request: Request, what: str, done: EventTypeRefusal | EventType, status: int = 200
) -> Response:
    """The type after a step, or why there was none."""
    if isinstance(done, EventTypeRefusal):
        raise event_type_error(done)
    validator_of(request).forget(caller_of(request).tenant, done.code)
    _note(request, what, done.code)
    return json_response(event_type_document(done), status)


async def _shown(
    request: Request, name: str, status: int = 200, *, forget: bool = False
) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(event_types.read, tenant, name)
    if found is None:
        raise event_type_error(EventTypeRefusal.EVENT_TYPE_NOT_FOUND)
    if forget or status == 201:
        validator_of(request).forget(tenant, found.code)
    return json_response(event_type_document(found), status)


def _note(request: Request, what: str, code: str) -> None:
    caller = caller_of(request)
    log.info(what, tenant=caller.tenant, code=code, by=caller.prefix)
