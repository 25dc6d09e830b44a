"""Events to the documents callers get, and refusals to problems."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from core.events.event import CLIENT, Event
from core.shared.timestamps import to_iso
from core.shared.tsid import made_at
from handlers.schemas.interface import Mismatch, within
from serve_app.http.field_errors import FieldError
from serve_app.http.models import Document, drop_none
from serve_app.http.problems import Problem, ProblemError
from services.events.validator import ValidationResult, ValidationStatus
from storage.events.events import ListedEvent


@dataclass(frozen=True, slots=True)
class IngestedEvent:
    """What became of an event: stored, or known already; what did not fit; what its wait said."""

    event: Event
    duplicate: bool
    jobs: int
    warnings: tuple[Mismatch, ...] = ()
    wait: Document | None = None


def event_document(event: Event) -> Document:
    """An event with its data."""
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
    """An event in a listing."""
    document = _attributes(listed.event)
    if listed.size is not None:
        document["dataSize"] = listed.size
    return document


def created_document(ingested: IngestedEvent) -> Document:
    """What became of one event."""
    document: Document = {
        "event": event_document(ingested.event),
        "duplicate": ingested.duplicate,
        "dispatchJobCount": ingested.jobs,
    }
    if ingested.warnings:
        document["warnings"] = _warnings(ingested.warnings)
    if ingested.wait is not None:
        document["wait"] = ingested.wait
    return document


def all_created_document(ingested: Sequence[IngestedEvent]) -> Document:
    """What became of the events of a batch."""
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
    waits = [(index, one.wait) for index, one in enumerate(ingested) if one.wait is not None]
    if waits:
        document["waits"] = [{"index": index, **wait} for index, wait in waits]
    return document


def validation_error(event: Event, result: ValidationResult, where: str) -> ProblemError:
    """The answer to an event that its type does not allow; `where` is its place in a batch."""
    if result.status is ValidationStatus.UNKNOWN:
        field_error = FieldError(
            f"{where}type", f"an event type that is registered; {event.type} is not"
        )
        problem = Problem(
            status=422,
            code="unknown_event_type",
            detail=str(field_error),
            field_errors=(field_error,),
        )
        return ProblemError(problem)
    if result.lacks_client:
        expected = f"a pair with the key {CLIENT}: events of {event.type} are about one client each"
        field_error = FieldError(f"{where}contextData", expected)
        problem = Problem(
            status=422, code="client_required", detail=str(field_error), field_errors=(field_error,)
        )
        return ProblemError(problem)
    root = f"{where}typeVersion" if result.is_misnamed else f"{where}data"
    faults = tuple(FieldError(within(root, one.path), one.expected) for one in result.mismatches)
    version = "" if result.version is None else f" {result.version}"
    detail = f"{root} is not what {event.type}{version} says: {faults[0]}"
    return ProblemError(
        Problem(status=422, code="schema_mismatch", detail=detail, field_errors=faults)
    )


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
