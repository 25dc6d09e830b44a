"""What callers of the audit log send and get."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from core.shared.timestamps import to_iso
from serve_app.http.models import Document, WireModel
from storage.postgres.audit_log import AuditEntry


class AuditQuery(WireModel):
    """Which part of the log a listing shows."""

    limit: Annotated[int, Field(ge=1, le=500)] = 100
    cursor: str | None = Field(None, description="nextCursor of the page before.")


class AuditItem(WireModel):
    """One change."""

    audit_id: int
    at: datetime
    actor: str = Field(description="Prefix of the key that did it, or `command line`.")
    action: str = Field(examples=["key.revoked"])
    object: str = Field(description="Prefix of a key, id of a subscription, number of a secret.")


class AuditPage(WireModel):
    """A part of the log, newest first."""

    items: list[AuditItem]
    next_cursor: str | None = None


def audit_document(entry: AuditEntry) -> Document:
    """One change as it is shown."""
    return {
        "auditId": entry.audit_id,
        "at": to_iso(entry.at),
        "actor": entry.actor,
        "action": entry.action,
        "object": entry.object,
    }
