"""Resources: the HTTP services that gathers ask."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from core.shared.quotas import Quota
from serve_app.gathers.models import RESOURCE_NAME, ResourcePage, ResourceRequest, ResourceView
from serve_app.gathers.rendering import resource_document
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.gathers import resources

log = structlog.get_logger("resources")

router = APIRouter(prefix="/api/resources", tags=["resources"])

ResourceName = Annotated[str, Path(alias="name", pattern=RESOURCE_NAME)]


@router.put(
    "/{name}",
    dependencies=[requires(Permission.RESOURCES_WRITE)],
    operation_id="putResource",
    responses=describe_responses({200: ResourceView, 201: ResourceView}, 409),
    openapi_extra=json_body(ResourceRequest),
)
async def put_resource(request: Request, name: ResourceName) -> Response:
    """Register a resource, or change it for future gathers."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(ResourceRequest, raw)
    await replica.count_quotas.check_declared(caller.tenant, Quota.RESOURCES, [name])
    created = await replica.database.query(resources.put, caller.tenant, name, body.to_resource())
    log.info("resource.put", tenant=caller.tenant, resource=name, by=caller.prefix)
    registered = await replica.database.query(resources.read, caller.tenant, name)
    if registered is None:
        raise NotFoundError(f"resource {name}")  # it was removed in between
    return json_response(resource_document(registered), 201 if created else 200)


@router.get(
    "",
    dependencies=[requires(Permission.RESOURCES_READ)],
    operation_id="listResources",
    responses=describe_responses({200: ResourcePage}),
)
async def list_resources(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[
        str, Query(pattern=rf"{RESOURCE_NAME}|^$", description="nextCursor of the page before.")
    ] = "",
) -> Response:
    """List the tenant's resources by name, without their secrets."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.listings.query(resources.page, tenant, cursor, limit)
    more = found[-1].name if len(found) == limit else None
    return json_response({"items": [resource_document(one) for one in found], "nextCursor": more})


@router.get(
    "/{name}",
    dependencies=[requires(Permission.RESOURCES_READ)],
    operation_id="showResource",
    responses=describe_responses({200: ResourceView}, 404),
)
async def show_resource(request: Request, name: ResourceName) -> Response:
    """Show one resource, without its secrets."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    registered = await replica.database.query(resources.read, tenant, name)
    if registered is None:
        raise NotFoundError(f"resource {name}")
    return json_response(resource_document(registered))


@router.delete(
    "/{name}",
    dependencies=[requires(Permission.RESOURCES_WRITE)],
    operation_id="dropResource",
    status_code=204,
    responses=describe_responses({}, 404),
)
async def drop_resource(request: Request, name: ResourceName) -> Response:
    """Remove a resource; gathers that have asked it continue."""
    replica, caller = replica_of(request), caller_of(request)
    if not await replica.database.query_once(resources.drop, caller.tenant, name):
        raise NotFoundError(f"resource {name}")
    log.info("resource.dropped", tenant=caller.tenant, resource=name, by=caller.prefix)
    return Response(status_code=204)
