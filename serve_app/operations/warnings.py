"""Warnings about dispatch: look at them, put them aside."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import NotFoundError
from serve_app.http.cursors import read_id_cursor
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.operations.monitoring_models import WarningPage, WarningsDropped, WarningView
from serve_app.operations.monitoring_rendering import warning_document
from storage.operations import warnings
from storage.operations.warnings import Severity, WarningFilter

MAX_HOURS = 24 * 366

router = APIRouter(prefix="/monitoring/warnings", tags=["monitoring"])

Reads = requires(Permission.DISPATCH_READ)
Writes = requires(Permission.DISPATCH_WRITE)

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=20, description="nextCursor of the page before.")]


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listWarnings",
    responses=describe_responses({200: WarningPage}),
)
async def list_warnings(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List warnings, newest first."""
    return await _listed(request, WarningFilter(), limit, cursor)


@router.get(
    "/unacknowledged",
    dependencies=[Reads],
    operation_id="listOpenWarnings",
    responses=describe_responses({200: WarningPage}),
)
async def list_open(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """List warnings that nobody has acknowledged, newest first."""
    return await _listed(request, WarningFilter(is_open=True), limit, cursor)


@router.get(
    "/severity/{severity}",
    dependencies=[Reads],
    operation_id="listWarningsBySeverity",
    responses=describe_responses({200: WarningPage}),
)
async def list_by_severity(
    request: Request, severity: Severity, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """List warnings of one severity, newest first."""
    return await _listed(request, WarningFilter(severity=severity), limit, cursor)


@router.post(
    "/{warningId}/acknowledge",
    dependencies=[Writes],
    operation_id="acknowledgeWarning",
    responses=describe_responses({200: WarningView}, 404),
)
async def acknowledge(
    request: Request, warning_id: Annotated[int, Path(alias="warningId", ge=1, lt=2**63)]
) -> Response:
    """Acknowledge a warning; if it happens again, there is a new one."""
    replica, caller = replica_of(request), caller_of(request)
    warned = await replica.database.query(
        warnings.acknowledge, caller.tenant, warning_id, caller.prefix
    )
    if warned is None:
        raise NotFoundError(f"warning {warning_id}")
    return json_response(warning_document(warned))


@router.delete(
    "",
    dependencies=[Writes],
    operation_id="deleteWarnings",
    responses=describe_responses({200: WarningsDropped}),
)
async def delete_all(request: Request) -> Response:
    """Forget all warnings."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    return json_response({"deleted": await replica.database.query(warnings.drop, tenant)})


@router.delete(
    "/old",
    dependencies=[Writes],
    operation_id="deleteOldWarnings",
    responses=describe_responses({200: WarningsDropped}),
)
async def delete_old(
    request: Request, hours: Annotated[float, Query(ge=0, le=MAX_HOURS)] = 24
) -> Response:
    """Forget warnings that have not come for so many hours."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    gone = await replica.database.query(warnings.drop, tenant, hours * 3_600)
    return json_response({"deleted": gone})


async def _listed(
    request: Request, chosen: WarningFilter, limit: int, cursor: str | None
) -> Response:
    replica, tenant = replica_of(request), caller_of(request).tenant
    before = read_id_cursor(cursor)
    found = await replica.listings.query(warnings.page, tenant, chosen, before, limit)
    more = str(found[-1].warning_id) if len(found) == limit else None
    return json_response({"items": [warning_document(one) for one in found], "nextCursor": more})
