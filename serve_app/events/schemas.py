"""Schemas that stand by themselves, to be shared and to make versions of."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.events.event_type import SchemaType
from core.shared.errors import NotFoundError
from core.shared.quotas import Quota
from serve_app.events.event_type_models import SchemaPage, SchemaRequest, SchemaWithContent
from serve_app.events.event_type_rendering import schema_document
from serve_app.events.schema_service import new_id, schema_draft_of
from serve_app.http.fields import SCHEMA_ID, TYPE_ID
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.events import schemas
from storage.events.schemas import SchemaFilter

log = structlog.get_logger("schemas")

router = APIRouter(prefix="/api/schemas", tags=["schemas"])

Reads = requires(Permission.EVENT_TYPES_READ)
Writes = requires(Permission.EVENT_TYPES_WRITE)

SchemaId = Annotated[str, Path(alias="schemaId", pattern=SCHEMA_ID)]


@router.post(
    "",
    dependencies=[Writes],
    operation_id="createSchema",
    status_code=201,
    responses=describe_responses({201: SchemaWithContent}, 409),
    openapi_extra=json_body(SchemaRequest),
)
async def create_schema(request: Request) -> Response:
    """Keep a schema; one that cannot be used is refused."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    draft = await schema_draft_of(request, parse_as(SchemaRequest, raw))
    await replica.count_quotas.check(caller.tenant, Quota.SCHEMAS)
    schema_id = new_id(request, "sch")
    await replica.database.query_once(schemas.create, caller.tenant, schema_id, draft)
    log.info("schema.created", tenant=caller.tenant, schema=schema_id, by=caller.prefix)
    return await _shown(request, schema_id, 201)


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listSchemas",
    responses=describe_responses({200: SchemaPage}),
)
async def list_schemas(
    request: Request,
    schema_type: Annotated[SchemaType | None, Query(alias="schemaType")] = None,
    event_type_id: Annotated[str | None, Query(alias="eventTypeId", pattern=TYPE_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[
        str, Query(pattern=rf"{SCHEMA_ID}|^$", description="nextCursor of the page before.")
    ] = "",
) -> Response:
    """List the tenant's schemas in the order they were made, without their contents."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    chosen = SchemaFilter(schema_type=schema_type, event_type_id=event_type_id)
    found = await replica.listings.query(schemas.page, tenant, chosen, cursor, limit)
    more = found[-1].schema_id if len(found) == limit else None
    return json_response({"items": [schema_document(one) for one in found], "nextCursor": more})


@router.get(
    "/{schemaId}",
    dependencies=[Reads],
    operation_id="showSchema",
    responses=describe_responses({200: SchemaWithContent}, 404),
)
async def show_schema(request: Request, schema_id: SchemaId) -> Response:
    """Show one schema with its content."""
    return await _shown(request, schema_id)


@router.put(
    "/{schemaId}",
    dependencies=[Writes],
    operation_id="replaceSchema",
    responses=describe_responses({200: SchemaWithContent}, 404),
    openapi_extra=json_body(SchemaRequest),
)
async def replace_schema(request: Request, schema_id: SchemaId) -> Response:
    """Change a schema. Versions that were made of it stay as they are."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    draft = await schema_draft_of(request, parse_as(SchemaRequest, raw))
    if not await replica.database.query(schemas.replace, caller.tenant, schema_id, draft):
        raise NotFoundError(f"schema {schema_id}")
    log.info("schema.replaced", tenant=caller.tenant, schema=schema_id, by=caller.prefix)
    return await _shown(request, schema_id)


@router.delete(
    "/{schemaId}",
    dependencies=[Writes],
    operation_id="dropSchema",
    status_code=204,
    responses=describe_responses({}, 404),
)
async def drop_schema(request: Request, schema_id: SchemaId) -> Response:
    """Remove a schema. Versions that were made of it stay."""
    replica, caller = replica_of(request), caller_of(request)
    if not await replica.database.query_once(schemas.drop, caller.tenant, schema_id):
        raise NotFoundError(f"schema {schema_id}")
    log.info("schema.dropped", tenant=caller.tenant, schema=schema_id, by=caller.prefix)
    return Response(status_code=204)


async def _shown(request: Request, schema_id: str, status: int = 200) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(schemas.read, tenant, schema_id)
    if found is None:
        raise NotFoundError(f"schema {schema_id}")
    return json_response(schema_document(found), status)
