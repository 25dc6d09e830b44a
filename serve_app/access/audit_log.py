"""The audit log: who changed the tenant's keys and secrets."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from core.access.permissions import Permission
from serve_app.http.cursors import read_id_cursor
from serve_app.http.fields import Cursor, IsoTime, Limit
from serve_app.http.models import View, WireModel
from serve_app.http.page import Page
from serve_app.http.router import Context, HttpRouter
from storage.postgres import audit_log

router = HttpRouter("/api/audit-log", tag="keys")


class AuditQuery(WireModel):
    """Which part of the log a listing shows."""

    limit: Limit = 100
    cursor: Cursor = None


class AuditView(View):
    """One change."""

    audit_id: int
    at: IsoTime
    actor: str = Field(description="Prefix of the key that did it, or `command line`.")
    action: str = Field(examples=["key.revoked"])
    object: str = Field(description="Prefix of a key, id of a subscription, number of a secret.")


@router.get(needs=Permission.AUDIT_READ)
async def list_audit_log(
    query: Annotated[AuditQuery, Query()], context: Context
) -> Page[AuditView]:
    """List who changed the tenant's keys and secrets, newest first, without the secrets."""
    rows = await context.list(audit_log.page, read_id_cursor(query.cursor), query.limit)
    return Page[AuditView].of_rows(rows, query.limit, lambda row: str(row.audit_id))
