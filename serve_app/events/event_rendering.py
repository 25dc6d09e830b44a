"""Events to the documents callers get, and refusals to problems."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from core.events.event import CLIENT, Event
from core.shared.timestamps import moment
from core.shared.tsid import made_at
from handlers.schemas.interface import Mismatch, within
from serve_app.http.field_errors import Fault
from serve_app.http.problems import Problem, ProblemError
from serve_app.waits.rendering import Document, known
from services.events.validator import Standing, Verdict
from storage.events.events import Listed


@dataclass(frozen=True, slots=True)
class Taken:
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


def event_item(listed: Listed) -> Document:
    """An event in a listing."""
    document = _attributes(listed.event)
    if listed.size is not None:
        document["dataSize"] = listed.size
    return document


def created_document(taken: Taken) -> Document:
    """What became of one event."""
    document: Document = {
        "event": event_document(taken.event),
        "duplicate": taken.duplicate,
        "dispatchJobCount": taken.jobs,
    }
    if taken.warnings:
        document["warnings"] = _warnings(taken.warnings)
    if taken.wait is not None:
        document["wait"] = taken.wait
    return document


def all_created_document(taken: Sequence[Taken]) -> Document:
    """What became of the events of a batch."""
    document: Document = {
        "events": [event_document(one.event) for one in taken],
        "count": len(taken),
        "dispatchJobCount": sum(one.jobs for one in taken),
        "duplicateCount": sum(one.duplicate for one in taken),
    }
    warned = [(index, one.warnings) for index, one in enumerate(taken) if one.warnings]
    if warned:
        document["warnings"] = [
            {"index": index, "warnings": _warnings(found)} for index, found in warned
        ]
    waits = [(index, one.wait) for index, one in enumerate(taken) if one.wait is not None]
    if waits:
        document["waits"] = [{"index": index, **wait} for index, wait in waits]
    return document


def unfit(event: Event, verdict: Verdict, where: str) -> ProblemError:
    """The answer to an event that its type does not allow; `where` is its place in a batch."""
    if verdict.standing is Standing.UNKNOWN:
        fault = Fault(f"{where}type", f"an event type that is registered; {event.type} is not")
        problem = Problem(status=422, code="unknown_event_type", detail=str(fault), faults=(fault,))
        return ProblemError(problem)
    if verdict.lacks_client:
        expected = f"a pair with the key {CLIENT}: events of {event.type} are about one client each"
        fault = Fault(f"{where}contextData", expected)
        problem = Problem(status=422, code="client_required", detail=str(fault), faults=(fault,))
        return ProblemError(problem)
    root = f"{where}typeVersion" if verdict.is_misnamed else f"{where}data"
    faults = tuple(Fault(within(root, one.path), one.expected) for one in verdict.mismatches)
    version = "" if verdict.version is None else f" {verdict.version}"
    detail = f"{root} is not what {event.type}{version} says: {faults[0]}"
    return ProblemError(Problem(status=422, code="schema_mismatch", detail=detail, faults=faults))


def _attributes(event: Event) -> Document:
    document: dict[str, Any] = {
        "id": event.event_id,
        "specVersion": event.spec_version,
        "type": event.type,
        "source": event.source,
        "time": moment(event.time),
        "contextData": [{"key": key, "value": value} for key, value in event.context],
        "createdAt": moment(made_at(event.event_id)),
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
    return document | known(given)


def _warnings(found: Sequence[Mismatch]) -> list[Document]:
    return [{"path": one.path, "expected": one.expected} for one in found]
