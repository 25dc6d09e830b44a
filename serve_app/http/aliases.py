"""Routes under a second path, which the OpenAPI document does not repeat."""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from serve_app.http.router import HttpRouter


def alias_routes(router: APIRouter | HttpRouter, address: str, other: str) -> APIRouter:
    """Copy every route of a router with another prefix of its path."""
    copies = APIRouter()
    for route in router.routes:
        if isinstance(route, APIRoute):
            copies.add_api_route(
                other + route.path.removeprefix(address),
                route.endpoint,
                methods=sorted(route.methods or ()),
                dependencies=route.dependencies,
                status_code=route.status_code,
                include_in_schema=False,
            )
    return copies
