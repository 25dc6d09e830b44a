"""Events come in: callbacks of services, and events of topics for places without a broker.

The hot path of the product; see lean.py.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.errors import InvalidError, MusterError
from core.waits.incoming_event import IncomingEvent
from core.waits.messages import Offer, Reply, Verdict, WaitMessage
from core.waits.spec import Source
from serve_app.container import Replica
from serve_app.http.headers import headers_of
from serve_app.http.json_io import (
    RawEventItem,
    decode_event_item,
    json_response,
    parse,
    parse_as,
    parse_items,
    read_body,
    split_body,
)
from serve_app.http.models import Document
from serve_app.http.openapi import any_json_body, describe_responses, json_body, parameter
from serve_app.http.permissions import caller_of, replica_of, requires, requires_or_token
from serve_app.http.problems import Problem, ProblemError
from serve_app.http.raw_route import RawRoute
from serve_app.waits.event_models import EventReply, EventResults
from serve_app.waits.intake import UnaddressedEvent
from serve_app.waits.replies import event_reply_document
from serve_app.waits.request_models import (
    EVENT_ID_LENGTH,
    MAX_ITEMS,
    EventBatch,
    EventItem,
    are_valid_ids,
)
from services.shared.time_slice import map_yielding


@dataclass(frozen=True, slots=True)
class _Ingress:
    """One way in: the path parameter that names the origin, and which names are allowed."""

    source: Source
    channel: str
    parameter: str
    pattern: re.Pattern[str]

    def label_in(self, request: Request) -> str:
        """The origin that the path names."""
        label: str = request.path_params[self.parameter]
        if not self.pattern.fullmatch(label):
            raise InvalidError(self.parameter, f"must match {self.pattern.pattern}")
        return label


_CALLBACKS = _Ingress(Source.API, "api", "service", re.compile(r"[\w.:-]{1,255}"))
_TOPICS = _Ingress(Source.KAFKA, "http", "topic", re.compile(r"[A-Za-z0-9._-]{1,249}"))
_EVENT_ID_HEADERS = ("x-event-id", "idempotency-key")

_IDS = [
    parameter("header", "X-Correlation-Id", "Else it is looked for in the body."),
    parameter("header", "X-Execution-Id", "Else it is looked for in the body."),
    parameter(
        "header",
        "X-Event-Id",
        "Sent again with the same id, the event counts once. Idempotency-Key does the same.",
        maxLength=EVENT_ID_LENGTH,
    ),
]
_SERVICE = parameter("path", "service", "Who calls back.", pattern=r"^[\w.:-]{1,255}$")
_TOPIC = parameter("path", "topic", "The topic.", pattern=r"^[A-Za-z0-9._-]{1,249}$")
_DATA = "The event's data. Ids in it are found by the names the wait is configured with."

router = APIRouter(route_class=RawRoute, tags=["events"])


@router.post(
    "/api/internal/callbacks/{service}",
    dependencies=[requires_or_token(Permission.CALLBACKS_WRITE)],
    operation_id="sendCallback",
    responses=describe_responses({200: EventReply}),
    openapi_extra={"parameters": [_SERVICE, *_IDS], **any_json_body(_DATA)},
)
async def send_callback(request: Request) -> Response:
    """Hand in a callback; the reply tells what became of it."""
    return await _receive_event(request, _CALLBACKS)


@router.post(
    "/api/internal/events/{topic}",
    dependencies=[requires(Permission.CALLBACKS_WRITE)],
    operation_id="sendEvent",
    responses=describe_responses({200: EventReply}),
    openapi_extra={"parameters": [_TOPIC, *_IDS], **any_json_body(_DATA)},
)
async def send_event(request: Request) -> Response:
    """Hand in an event of a topic, as if it had come by Kafka."""
    return await _receive_event(request, _TOPICS)


@router.post(
    "/api/internal/callbacks/{service}/batch",
    dependencies=[requires(Permission.CALLBACKS_WRITE)],
    operation_id="sendCallbacks",
    responses=describe_responses({200: EventResults}),
    openapi_extra={"parameters": [_SERVICE], **json_body(EventBatch)},
)
async def send_callbacks(request: Request) -> Response:
    """Hand in up to 1000 callbacks of one service."""
    return await _receive_events(request, _CALLBACKS)


@router.post(
    "/api/internal/events/{topic}/batch",
    dependencies=[requires(Permission.CALLBACKS_WRITE)],
    operation_id="sendEvents",
    responses=describe_responses({200: EventResults}),
    openapi_extra={"parameters": [_TOPIC], **json_body(EventBatch)},
)
async def send_events(request: Request) -> Response:
    """Hand in up to 1000 events of one topic."""
    return await _receive_events(request, _TOPICS)


async def _receive_event(request: Request, door: _Ingress) -> Response:
    replica = replica_of(request)
    label = door.label_in(request)
    headers = headers_of(request)
    raw = await read_body(request, replica.config.request_timeout) or b"null"
    arrival = IncomingEvent(
        source=door.source,
        channel=door.channel,
        label=label,
        raw=raw,
        body=parse(raw),
        headers=headers,
        event_id=_event_id(headers),
    )
    caller = caller_of(request)
    offer = await replica.intake.address(caller, arrival)
    if isinstance(offer, UnaddressedEvent):
        await replica.intake.park([offer])
        replica.metrics.count_event(door.channel, Verdict.REJECTED)
        raise ProblemError(offer.problem)
    reply = await replica.gateway.send(offer)
    document = event_reply_document(offer, reply, brief=not caller.sees_expected)
    replica.metrics.count_event(door.channel, document["verdict"])
    return json_response(document)


async def _receive_events(request: Request, door: _Ingress) -> Response:
    replica, caller, label = replica_of(request), caller_of(request), door.label_in(request)
    raw = await read_body(request, replica.config.request_timeout)
    read = await map_yielding(partial(_read, door, label), parse_items(raw, MAX_ITEMS))
    arrivals = [one for one in read if isinstance(one, IncomingEvent)]
    addressed = iter(await replica.intake.address_all(caller, arrivals))
    offers = [next(addressed) if isinstance(one, IncomingEvent) else one for one in read]
    unaddressed = [offer for offer in offers if isinstance(offer, UnaddressedEvent)]
    await replica.intake.park(unaddressed)
    results = await _results(replica, offers, brief=not caller.sees_expected)
    verdicts = [result["body"]["verdict"] for result in results if "body" in result]
    for verdict in [*verdicts, *(Verdict.REJECTED for _ in unaddressed)]:
        replica.metrics.count_event(door.channel, verdict)
    return json_response({"results": results})


def _read(door: _Ingress, label: str, raw: msgspec.Raw) -> IncomingEvent | Problem:
    """One item of a batch; what is wrong with it concerns no other."""
    try:
        item = decode_event_item(raw)
        if item is not None and are_valid_ids(
            item.execution_id, item.correlation_id, item.event_id
        ):
            return _arrival(door, label, bytes(item.body), item)
        content, rest = split_body(raw)
        return _arrival(door, label, content, parse_as(EventItem, rest))
    except ProblemError as error:
        return error.problem


async def _results(
    replica: Replica, offers: Sequence[Offer | UnaddressedEvent | Problem], *, brief: bool
) -> list[Document]:
    """Send what can be sent; every item gets its answer, in order."""
    messages: list[WaitMessage] = [offer for offer in offers if isinstance(offer, Offer)]
    replies = iter(await replica.gateway.send_many(messages) if messages else [])
    answered = [(offer, next(replies) if isinstance(offer, Offer) else None) for offer in offers]
    return await map_yielding(partial(_result, brief), answered)


def _result(
    brief: bool, answered: tuple[Offer | UnaddressedEvent | Problem, Reply | None]
) -> Document:
    offer, reply = answered
    match offer:
        case Offer() if reply is not None:
            try:
                return {"status": 200, "body": event_reply_document(offer, reply, brief=brief)}
            except ProblemError as error:
                problem = error.problem
        case UnaddressedEvent():
            problem = offer.problem
        case Problem():
            problem = offer
        case _:
            raise MusterError("an event of a batch was not answered")
    return {"status": problem.status, "problem": problem.document()}


def _arrival(
    door: _Ingress, label: str, content: bytes, item: EventItem | RawEventItem
) -> IncomingEvent:
    ids = {"x-execution-id": item.execution_id, "x-correlation-id": item.correlation_id}
    return IncomingEvent(
        source=door.source,
        channel=door.channel,
        label=label,
        raw=content,
        body=parse(content),
        headers={name: value for name, value in ids.items() if value is not None},
        event_id=item.event_id,
    )


def _event_id(headers: dict[str, str]) -> str | None:
    for name in _EVENT_ID_HEADERS:
        given = headers.get(name)
        if given:
            if len(given) > EVENT_ID_LENGTH or not given.isprintable():
                raise InvalidError(name, f"1 to {EVENT_ID_LENGTH} printable characters")
            return given
    return None
