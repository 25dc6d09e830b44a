"""Monitoring across pools: consumers, the supervisor, and a dashboard."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.operations import monitoring_service
from serve_app.operations.overview_models import ConsumerHealth, Dashboard, StandbyStatus

router = APIRouter(prefix="/monitoring", tags=["monitoring"])

Reads = requires(Permission.DISPATCH_READ)


@router.get(
    "/consumer-health",
    dependencies=[Reads],
    operation_id="showConsumerHealth",
    responses=describe_responses({200: ConsumerHealth}),
)
async def show_consumers(request: Request) -> Response:
    """Show when each pool and each Kafka consumer last polled for work."""
    return json_response(
        await monitoring_service.consumers(replica_of(request), caller_of(request).tenant)
    )


@router.get(
    "/standby-status",
    dependencies=[Reads],
    operation_id="showStandbyStatus",
    responses=describe_responses({200: StandbyStatus}),
)
async def show_standby(request: Request) -> Response:
    """Show the state of failover: there is no second instance, a supervisor restarts actors."""
    return json_response(await monitoring_service.standby(replica_of(request)))


@router.get(
    "/dashboard",
    dependencies=[Reads],
    operation_id="showDashboard",
    responses=describe_responses({200: Dashboard}),
)
async def show_dashboard(request: Request) -> Response:
    """Show all of monitoring in one document, up to a hundred items of each kind."""
    return json_response(
        await monitoring_service.dashboard(replica_of(request), caller_of(request).tenant)
    )
