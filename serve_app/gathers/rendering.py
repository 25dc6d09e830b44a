"""Gathers and resources as JSON."""

from collections.abc import Mapping
from typing import Any

from core.gathers.gather import (
    GatherSpec,
    Resource,
    state_of,
    state_of_outcome,
    summarize,
)
from core.shared.address import Address
from core.shared.json_path import MISSING, document_of, json_or_text
from core.shared.timestamps import to_iso
from core.waits.config import MASK
from core.waits.state import EventState, Wait, WaitLogEntry
from core.waits.strategy import Outcome, Status
from serve_app.http.models import Document
from storage.gathers.resources import RegisteredResource

COMPLETE = "COMPLETE"


def decoded(payload: bytes) -> Any:
    document = document_of(payload) if payload else None
    return None if document is MISSING else document


def detail_of(document: Any) -> Document:
    detail = document.get("detail") if isinstance(document, dict) else None
    return {"detail": detail} if isinstance(detail, str) else {}


def gather_document(wait: Wait, asked: GatherSpec, payloads: Mapping[str, bytes]) -> Document:
    """Render a gather with the state of each resource."""
    tally = summarize(wait)
    document: Document = {
        "id": wait.address.correlation_id,
        "correlationId": wait.address.correlation_id,
        "status": wait.status,
        "respondents": tally.respondents,
        "errors": tally.errors,
        "received": tally.received,
        "expected": tally.expected,
        "context": asked.context,
        "createdAt": to_iso(wait.opened_at),
        "expiresAt": to_iso(wait.expires_at),
    }
    if wait.ending is not None:
        document |= {
            "endedAt": to_iso(wait.ending.at),
            "reason": wait.ending.reason,
            "completeness": tally.completeness,
        }
    marks = zip(wait.spec.names, wait.marks, strict=True)
    document["resources"] = {
        name: _resource_document(mark, payloads.get(name, b"")) for name, mark in marks
    }
    return document


def _resource_document(mark: EventState, payload: bytes) -> Document:
    # An answer is passed on unchanged; only an error is decoded to describe it.
    said = None if mark.outcome is Outcome.RECEIVED else decoded(payload)
    document: Document = {"state": state_of(mark, said)}
    if mark.at:
        document["at"] = to_iso(mark.at)
    if mark.outcome is Outcome.RECEIVED:
        document["data"] = json_or_text(payload)
    elif mark.outcome is not Outcome.PENDING:
        document |= detail_of(said)
    return document


def event_document(address: Address, entry: WaitLogEntry) -> Document:
    """Render the answer of one resource, or the error that took its place."""
    outcome = Outcome(entry.kind)
    said = None if outcome is Outcome.RECEIVED else decoded(entry.payload)
    document: Document = {
        "source": entry.event,
        "correlationId": address.correlation_id,
        "status": state_of_outcome(outcome, said),
        "at": to_iso(entry.at),
        "data": json_or_text(entry.payload) if outcome is Outcome.RECEIVED else None,
    }
    return document if outcome is Outcome.RECEIVED else document | detail_of(said)


def summary_document(wait: Wait, context: Any) -> Document:
    """Render the last event of a gather's stream."""
    tally = summarize(wait)
    return {
        "source": "MUSTER",
        "correlationId": wait.address.correlation_id,
        "status": ending_status(wait),
        "completeness": tally.completeness,
        "respondents": tally.respondents,
        "errors": tally.errors,
        "received": tally.received,
        "expected": tally.expected,
        "context": context,
        "at": to_iso(wait.ending.at) if wait.ending else None,
    }


def ending_status(wait: Wait) -> str:
    """Return COMPLETE however many resources answered, or the status of a cancelled gather."""
    return COMPLETE if wait.status is Status.COMPLETED else wait.status.upper()


def resource_document(registered: RegisteredResource) -> Document:
    """Render a resource with its secrets masked."""
    resource: Resource = registered.resource
    return {
        "name": registered.name,
        "url": resource.url,
        "method": resource.method,
        "headers": dict.fromkeys(resource.headers, MASK),
        "auth": _auth(resource),
        "connectTimeoutMs": round(resource.connect_timeout * 1000),
        "readTimeoutMs": round(resource.read_timeout * 1000),
        "ratePerMinute": resource.rate_per_minute,
        "concurrency": resource.concurrency,
        "reply": resource.reply,
        "createdAt": to_iso(registered.created_at),
        "updatedAt": to_iso(registered.updated_at),
    }


def _auth(resource: Resource) -> Document | None:
    if resource.authorization is None:
        return None
    return {"type": resource.authorization.partition(" ")[0].lower(), "secret": MASK}
