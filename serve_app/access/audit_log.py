"""The audit log: who changed the tenant's keys and secrets."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from serve_app.access.audit_log_models import AuditPage, AuditQuery, audit_document
from serve_app.http.cursors import read_id_cursor
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.postgres import audit_log

router = APIRouter(tags=["keys"])


@router.get(
    "/api/audit-log",
    dependencies=[requires(Permission.AUDIT_READ)],
    operation_id="listAuditLog",
    responses=describe_responses({200: AuditPage}),
)
async def list_audit_log(request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
    """List who changed the tenant's keys and secrets, newest first, without the secrets."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    before = read_id_cursor(query.cursor)
    found = await replica.listings.query(audit_log.page, tenant, before, query.limit)
    more = str(found[-1].audit_id) if len(found) == query.limit else None
    return json_response({"items": [audit_document(one) for one in found], "nextCursor": more})
