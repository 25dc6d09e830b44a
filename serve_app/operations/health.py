"""Health checks for load balancers and people; public, so they show no details."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from core.shared.errors import UnauthenticatedError
from serve_app.http.json_io import headers_of, json_response
from serve_app.http.models import WireModel
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import replica_of
from serve_app.operations.health_checks import UP
from storage.postgres.error_class import SERVER_ERRORS

router = APIRouter(prefix="/actuator/health", tags=["operations"])

_NOBODY: tuple[type[Exception], ...] = (UnauthenticatedError, *SERVER_ERRORS)


class ComponentView(WireModel):
    """One component; requests need the database, the shards and the timer."""

    status: Literal["UP", "DOWN"]
    up: int | None = None
    expected: int | None = None
    detail: str | None = None
    details: dict[str, Any] | None = Field(None, description="Resources by name need a key.")


class HealthView(WireModel):
    """Whether requests can be served."""

    status: Literal["UP", "DOWN"]
    components: dict[str, ComponentView] | None = None


_HEALTH_RESPONSES: dict[int | str, Any] = {
    **describe_responses({200: HealthView}),
    503: {"model": HealthView, "description": "A part that is needed is away."},
}


@router.get("", operation_id="showHealth", responses=_HEALTH_RESPONSES)
async def show_health(request: Request) -> Response:
    """Show the health of the database, actors, streams and resources; with a key, by name."""
    return await _health_response(request)


@router.get("/readiness", operation_id="showReadiness", responses=_HEALTH_RESPONSES)
async def show_readiness(request: Request) -> Response:
    """Show whether requests can be served now."""
    return await _health_response(request)


@router.get(
    "/liveness", operation_id="showLiveness", responses=describe_responses({200: HealthView})
)
async def show_liveness() -> Response:
    """Show that this replica runs. A database that is down is no reason to restart it."""
    return json_response({"status": UP})


async def _tenant(request: Request) -> int | None:
    """Return the tenant of a valid key; None without a key or with a bad one."""
    authorization = headers_of(request).get("authorization")
    if authorization is None:
        return None
    try:
        return (await replica_of(request).keys.caller(authorization)).tenant
    except _NOBODY:
        return None


async def _health_response(request: Request) -> Response:
    health = await replica_of(request).health.read(await _tenant(request))
    return json_response(health, 200 if health["status"] == UP else 503)
