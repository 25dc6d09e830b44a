"""Requests and responses of the audit log."""

from pydantic import Field

from serve_app.http.fields import Cursor, IsoTime, Limit
from serve_app.http.models import View, WireModel


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
