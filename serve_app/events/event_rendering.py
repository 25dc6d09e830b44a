"""Events as the JSON documents that callers get, and rejected events as problems."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from core.events.event import CLIENT, Event
from core.shared.timestamps import to_iso
from core.shared.tsid import made_at
from handlers.schemas.interface import Mismatch, within
from serve_app.http.event_replies import stored_event_reply_document
from serve_app.http.field_errors import FieldError
from serve_app.http.models import Document, drop_none
from serve_app.http.problems import ProblemError, problem_error
from services.events.intake import IngestedEvent, RejectedEvent
from services.events.validator import ValidationStatus
from storage.events.events import ListedEvent


def event_document(event: Event) -> Document:
    document = _attributes(event)
    data = event.data
    if data is None:
        return document
    if event.is_json:
        document["data"] = msgspec.Raw(data)
        return document
    try:
        document["data"] = data.decode()
    except UnicodeDecodeError:
        document["dataBase64"] = base64.b64encode(data).decode()
    return document


def event_item(listed: ListedEvent) -> Document:
    document = _attributes(listed.event)
    if listed.size is not None:
        document["dataSize"] = listed.size
    return document


def created_document(ingested: IngestedEvent, *, brief: bool = False) -> Document:
    """Render a stored event and its verdict; `brief` leaves out what the wait expects."""
    document: Document = {
        "event": event_document(ingested.event),
        "duplicate": ingested.duplicate,
        "dispatchJobCount": ingested.jobs,
    }
    if ingested.warnings:
        document["warnings"] = _warnings(ingested.warnings)
    if ingested.wait is not None:
        document["wait"] = stored_event_reply_document(*ingested.wait, brief=brief)
    return document


def all_created_document(ingested: Sequence[IngestedEvent], *, brief: bool = False) -> Document:
    """Render the events of a batch and their verdicts; `brief` leaves out what waits expect."""
    document: Document = {
        "events": [event_document(one.event) for one in ingested],
        "count": len(ingested),
        "dispatchJobCount": sum(one.jobs for one in ingested),
        "duplicateCount": sum(one.duplicate for one in ingested),
    }
    warned = [(index, one.warnings) for index, one in enumerate(ingested) if one.warnings]
    if warned:
        document["warnings"] = [
            {"index": index, "warnings": _warnings(found)} for index, found in warned
        ]
    waits = [
        {"index": index, **stored_event_reply_document(*one.wait, brief=brief)}
        for index, one in enumerate(ingested)
        if one.wait is not None
    ]
    if waits:
        document["waits"] = waits
    return document


def rejection_error(rejected: RejectedEvent, *, is_batch: bool) -> ProblemError:
    """Make the problem of an event that its type does not allow."""
    event, result = rejected.event, rejected.result
    where = f"[{rejected.index}]." if is_batch else ""
    if result.status is ValidationStatus.UNKNOWN:
        expected = f"an event type that is registered; {event.type} is not"
        return _unprocessable("unknown_event_type", FieldError(f"{where}type", expected))
    if result.lacks_client:
        expected = f"a pair with the key {CLIENT}: events of {event.type} are about one client each"
        return _unprocessable("client_required", FieldError(f"{where}contextData", expected))
    root = f"{where}typeVersion" if result.is_misnamed else f"{where}data"
    errors = [FieldError(within(root, one.path), one.expected) for one in result.mismatches]
    version = "" if result.version is None else f" {result.version}"
    detail = f"{root} does not match the schema of {event.type}{version}: {errors[0]}"
    return _unprocessable("schema_mismatch", *errors, detail=detail)


def _unprocessable(code: str, *errors: FieldError, detail: str | None = None) -> ProblemError:
    return problem_error(422, code, detail or str(errors[0]), field_errors=errors)


def _attributes(event: Event) -> Document:
    document: dict[str, Any] = {
        "id": event.event_id,
        "specVersion": event.spec_version,
        "type": event.type,
        "source": event.source,
        "time": to_iso(event.time),
        "contextData": [{"key": key, "value": value} for key, value in event.context],
        "createdAt": to_iso(made_at(event.event_id)),
    }
    given = {
        "subject": event.subject,
        "dataContentType": event.content_type,
        "dataSchema": event.data_schema,
        "typeVersion": event.type_version,
        "executionId": event.execution_id,
        "correlationId": event.correlation_id,
        "causationId": event.causation_id,
        "deduplicationId": event.deduplication_id,
        "messageGroup": event.message_group,
        "extensions": event.extensions or None,
    }
    return document | drop_none(given)


def _warnings(found: Sequence[Mismatch]) -> list[Document]:
    return [{"path": one.path, "expected": one.expected} for one in found]
