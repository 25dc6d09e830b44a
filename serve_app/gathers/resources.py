"""Resources: the HTTP services that gathers ask."""

from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from core.shared.quotas import Quota
from serve_app.gathers.models import RESOURCE_NAME, ResourceRequest, ResourceView
from serve_app.http.json_io import JsonResponse
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter, unless_missing
from storage.gathers import resources

router = HttpRouter("/api/resources", tag="resources", access="resources")

ResourceName = Annotated[str, Path(alias="name", pattern=RESOURCE_NAME)]


@router.put("/{name}", answers={200: ResourceView, 201: ResourceView}, refuses=(409,))
async def put_resource(name: ResourceName, body: ResourceRequest, context: Context) -> Response:
    """Register a resource, or change it for future gathers."""
    await context.replica.count_quotas.check_declared(context.tenant, Quota.RESOURCES, [name])
    created = await context.read(resources.put, name, body.to_resource())
    view = await show_resource(name, context)
    return JsonResponse(view.to_json(), 201 if created else 200)


@router.get()
async def list_resources(
    context: Context,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    cursor: Annotated[
        str, Query(pattern=rf"{RESOURCE_NAME}|^$", description="nextCursor of the page before.")
    ] = "",
) -> Page[ResourceView]:
    """List the tenant's resources by name, without their secrets."""
    rows = await context.list(resources.page, cursor, limit)
    return Page[ResourceView].of_rows(rows, limit, lambda row: row.name)


@router.get("/{name}", refuses=(404,))
async def show_resource(name: ResourceName, context: Context) -> ResourceView:
    """Show one resource, without its secrets."""
    row = await context.read(resources.read, name)
    return ResourceView.of(unless_missing(row, f"resource {name}"))


@router.delete("/{name}", refuses=(404,))
async def drop_resource(name: ResourceName, context: Context) -> None:
    """Remove a resource; gathers that have asked it continue."""
    unless_missing(await context.write(resources.drop, name), f"resource {name}")
