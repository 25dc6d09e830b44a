"""The audit log: who changed the tenant's keys and secrets."""

from typing import Annotated

from fastapi import Query

from core.access.permissions import Permission
from serve_app.access.audit_log_models import AuditQuery, AuditView
from serve_app.http.cursors import read_id_cursor
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter
from storage.postgres import audit_log

router = HttpRouter("/api/audit-log", tag="keys")


@router.get(needs=Permission.AUDIT_READ)
async def list_audit_log(
    query: Annotated[AuditQuery, Query()], context: Context
) -> Page[AuditView]:
    """List who changed the tenant's keys and secrets, newest first, without the secrets."""
    rows = await context.list(audit_log.page, read_id_cursor(query.cursor), query.limit)
    return Page[AuditView].of_rows(rows, query.limit, lambda row: str(row.audit_id))
