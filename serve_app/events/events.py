"""Routes of events: CloudEvents are posted, listed and shown."""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Annotated, Any, TypeVar

from fastapi import Path, Query, Request
from starlette.responses import Response

from core.events.cloud_event import EventStamp, read_batch, read_binary, read_event
from core.events.event import Event
from core.shared.errors import InvalidError
from core.shared.media_types import CLOUD_EVENT, CLOUD_EVENT_BATCH, JSON, media_type
from core.shared.tsid import PATTERN
from serve_app.events.event_models import (
    EventCreated,
    EventDocument,
    EventListQuery,
    EventPage,
    EventsCreated,
    NewCloudEvent,
    NewEvent,
)
from serve_app.events.event_rendering import (
    all_created_document,
    created_document,
    event_document,
    event_item,
    rejection_error,
)
from serve_app.http.json_io import (
    check_content_type,
    headers_of,
    json_response,
    parse,
    read_any_body,
)
from serve_app.http.openapi import ref
from serve_app.http.permissions import caller_of, replica_of
from serve_app.http.problems import ProblemError, problem_error
from serve_app.http.router import Context, HttpRouter, unless_missing
from services.events.intake import IngestedEvent, RejectedEvent
from storage.events import events as table

MAX_EVENTS = 1_000

T = TypeVar("T")

_ID = re.compile(PATTERN)
_CLOUD_EVENTS = "application/cloudevents"
# One of these headers means binary mode, even if the others are missing.
_BINARY_HEADERS = ("ce-specversion", "ce-id", "ce-type", "ce-source")

router = HttpRouter("/api/events", tag="events", access="events")


class EventFormat(Enum):
    PLAIN = auto()
    STRUCTURED = auto()
    BINARY = auto()
    BATCH = auto()


def _body(content: dict[str, Any]) -> dict[str, Any]:
    schemas = {kind: {"schema": schema} for kind, schema in content.items()}
    return {"requestBody": {"required": True, "content": schemas}}


def _many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "maxItems": MAX_EVENTS, "items": item}


_PLAIN, _CLOUD = {"$ref": ref(NewEvent)}, {"$ref": ref(NewCloudEvent)}


@router.post(
    status=201,
    answers={200: EventCreated, 201: EventCreated},
    raw=_body({JSON: _PLAIN, CLOUD_EVENT: _CLOUD}),
)
async def create_event(request: Request) -> Response:
    """Store an event and deliver it to every subscription that matches.

    It may be a CloudEvent in binary mode: attributes in `ce-` headers, data in the body. A batch
    (`application/cloudevents-batch+json`) is handled as by /api/events/batch.
    """
    form = event_format_of(headers_of(request))
    if form is EventFormat.BATCH:
        return await _create_many(request, structured=True)
    replica = replica_of(request)
    raw = await read_any_body(request, replica.config.request_timeout)
    stamp = _stamp(request)
    if form is EventFormat.BINARY:
        event = _read(request, lambda: read_binary(headers_of(request), raw, stamp))
    else:
        structured = form is EventFormat.STRUCTURED
        event = _read(request, lambda: read_event(raw, stamp, structured=structured), raw)
    (ingested,) = await _ingest(request, [event], is_batch=False)
    status = 200 if ingested.duplicate else 201
    location = {"Location": f"/api/events/{ingested.event.event_id}"}
    return json_response(created_document(ingested, brief=_is_brief(request)), status, location)


@router.post(
    "/batch",
    status=201,
    answers={201: EventsCreated},
    raw=_body({JSON: _many({"anyOf": [_PLAIN, _CLOUD]}), CLOUD_EVENT_BATCH: _many(_CLOUD)}),
)
async def create_events(request: Request) -> Response:
    """Store up to 1000 events in one transaction: all of them, or none if one is not valid."""
    form = event_format_of(headers_of(request))
    if form not in {EventFormat.BATCH, EventFormat.PLAIN}:
        raise _unsupported(f"send a batch as {JSON} or {CLOUD_EVENT_BATCH}")
    return await _create_many(request, structured=form is EventFormat.BATCH)


def _is_brief(request: Request) -> bool:
    """Return True if the caller learns no more of a wait than its verdict."""
    return not caller_of(request).sees_expected


async def _create_many(request: Request, *, structured: bool) -> Response:
    replica = replica_of(request)
    raw = await read_any_body(request, replica.config.request_timeout)
    stamp = _stamp(request)
    events = _read(request, lambda: read_batch(raw, stamp, MAX_EVENTS, structured=structured), raw)
    ingested = await _ingest(request, events, is_batch=True)
    return json_response(all_created_document(ingested, brief=_is_brief(request)), 201)


async def _ingest(request: Request, events: list[Event], *, is_batch: bool) -> list[IngestedEvent]:
    ingested = await replica_of(request).event_intake.ingest(events)
    if isinstance(ingested, RejectedEvent):
        raise rejection_error(ingested, is_batch=is_batch)
    return ingested


@router.get(answers={200: EventPage})
async def list_events(query: Annotated[EventListQuery, Query()], context: Context) -> Response:
    """List the tenant's events, newest first, without their data."""
    found = await context.list(table.page, query.to_filter(), query.cursor, query.limit)
    items = found.items
    more = items[-1].event.event_id if len(items) == query.limit else found.scanned_to
    return json_response({"items": [event_item(one) for one in items], "nextCursor": more})


@router.get("/{id}", answers={200: EventDocument}, refuses=(404,))
async def show_event(event_id: Annotated[str, Path(alias="id")], context: Context) -> Response:
    """Show one event with its data."""
    is_id = _ID.fullmatch(event_id) is not None
    found = await context.read(table.read, event_id) if is_id else None
    return json_response(event_document(unless_missing(found, "an event with this id")))


def event_format_of(headers: dict[str, str]) -> EventFormat:
    declared = headers.get("content-type")
    kind = "" if declared is None else media_type(declared)
    if kind.startswith(_CLOUD_EVENTS):
        if kind == CLOUD_EVENT:
            return EventFormat.STRUCTURED
        if kind == CLOUD_EVENT_BATCH:
            return EventFormat.BATCH
        raise _unsupported(f"send CloudEvents as {CLOUD_EVENT} or {CLOUD_EVENT_BATCH}")
    if any(name in headers for name in _BINARY_HEADERS):
        return EventFormat.BINARY
    check_content_type(declared)
    return EventFormat.PLAIN


def _stamp(request: Request) -> EventStamp:
    replica = replica_of(request)
    return EventStamp(caller_of(request).tenant, replica.client.clock.now(), replica.new_id)


def _read(request: Request, read: Callable[[], T], raw: bytes | None = None) -> T:
    """Read a body; if it is not JSON at all, raise that instead of the reader's error."""
    try:
        return read()
    except InvalidError:
        replica_of(request).metrics.events.refused += 1
        if raw is not None:
            parse(raw)
        raise


def _unsupported(detail: str) -> ProblemError:
    return problem_error(415, "unsupported_media_type", detail)
