"""Events by HTTP: callbacks of services, and events of topics where there is no broker.

These routes are the hot path; see raw_route.py.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
from fastapi import Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.access.tokens import CALLBACK
from core.shared.errors import InvalidError, MusterError
from core.waits.incoming_event import IncomingEvent
from core.waits.messages import Offer, Reply, Verdict, WaitMessage
from core.waits.spec import Source
from serve_app.container import Replica
from serve_app.http import json_io
from serve_app.http.event_replies import EventReply, event_reply_document, missing_id_problem
from serve_app.http.json_io import RawEventItem
from serve_app.http.models import Document
from serve_app.http.openapi import any_json_body, json_body, parameter
from serve_app.http.permissions import caller_of, replica_of
from serve_app.http.problems import Problem, ProblemError
from serve_app.http.router import HttpRouter
from serve_app.waits.event_models import EventResults
from serve_app.waits.request_models import (
    EVENT_ID_LENGTH,
    MAX_ITEMS,
    EventBatch,
    EventItem,
    are_valid_ids,
)
from services.shared.time_slice import map_yielding
from services.waits.intake import UnaddressedEvent


@dataclass(frozen=True, slots=True)
class _Ingress:
    """A kind of sender: the path parameter that names the service or topic, and its pattern."""

    source: Source
    channel: str
    parameter: str
    pattern: re.Pattern[str]

    def label_in(self, request: Request) -> str:
        label: str = request.path_params[self.parameter]
        if not self.pattern.fullmatch(label):
            raise InvalidError(self.parameter, f"must match {self.pattern.pattern}")
        return label


_CALLBACKS = _Ingress(Source.API, "api", "service", re.compile(r"[\w.:-]{1,255}"))
_TOPICS = _Ingress(Source.KAFKA, "http", "topic", re.compile(r"[A-Za-z0-9._-]{1,249}"))
_EVENT_ID_HEADERS = ("x-event-id", "idempotency-key")

_IDS = [
    parameter("header", "X-Correlation-Id", "If absent, the id is read from the body."),
    parameter("header", "X-Execution-Id", "If absent, the id is read from the body."),
    parameter(
        "header",
        "X-Event-Id",
        "An event that is sent again with the same id counts once. Idempotency-Key does the same.",
        maxLength=EVENT_ID_LENGTH,
    ),
]
_SERVICE = parameter("path", "service", "The service that calls back.", pattern=r"^[\w.:-]{1,255}$")
_TOPIC = parameter("path", "topic", "The topic.", pattern=r"^[A-Za-z0-9._-]{1,249}$")
_DATA = "The event's data. Ids in it are found under the names that the wait configures."

router = HttpRouter("/api/internal", tag="events", writes=Permission.CALLBACKS_WRITE)


@router.post(
    "/callbacks/{service}",
    token=CALLBACK,
    answers={200: EventReply},
    raw={"parameters": [_SERVICE, *_IDS], **any_json_body(_DATA)},
)
async def send_callback(request: Request) -> Response:
    """Send a callback; the reply has the verdict."""
    return await _receive_event(request, _CALLBACKS)


@router.post(
    "/events/{topic}",
    answers={200: EventReply},
    raw={"parameters": [_TOPIC, *_IDS], **any_json_body(_DATA)},
)
async def send_event(request: Request) -> Response:
    """Send an event of a topic, as if Kafka had delivered it."""
    return await _receive_event(request, _TOPICS)


@router.post(
    "/callbacks/{service}/batch",
    answers={200: EventResults},
    raw={"parameters": [_SERVICE], **json_body(EventBatch)},
)
async def send_callbacks(request: Request) -> Response:
    """Send up to 1000 callbacks of one service."""
    return await _receive_events(request, _CALLBACKS)


@router.post(
    "/events/{topic}/batch",
    answers={200: EventResults},
    raw={"parameters": [_TOPIC], **json_body(EventBatch)},
)
async def send_events(request: Request) -> Response:
    """Send up to 1000 events of one topic."""
    return await _receive_events(request, _TOPICS)


async def _receive_event(request: Request, ingress: _Ingress) -> Response:
    replica = replica_of(request)
    label = ingress.label_in(request)
    headers = json_io.headers_of(request)
    raw = await json_io.read_body(request, replica.config.request_timeout) or b"null"
    event = IncomingEvent(
        source=ingress.source,
        channel=ingress.channel,
        label=label,
        raw=raw,
        body=json_io.parse(raw),
        headers=headers,
        event_id=_event_id(headers),
    )
    caller = caller_of(request)
    if caller.address is not None:
        caller.check_source(label)
        offer = await replica.intake.address_by_token(caller.address, event)
    else:
        addressed = await replica.intake.address(caller.tenant, event)
        if isinstance(addressed, UnaddressedEvent):
            await replica.intake.park([addressed])
            replica.metrics.count_event(ingress.channel, Verdict.REJECTED)
            raise ProblemError(missing_id_problem(addressed.missing))
        offer = addressed
    reply = await replica.client.send(offer)
    document = event_reply_document(offer, reply, brief=not caller.sees_expected)
    replica.metrics.count_event(ingress.channel, document["verdict"])
    return json_io.json_response(document)


async def _receive_events(request: Request, ingress: _Ingress) -> Response:
    replica, caller, label = replica_of(request), caller_of(request), ingress.label_in(request)
    raw = await json_io.read_body(request, replica.config.request_timeout)
    read = await map_yielding(partial(_read, ingress, label), json_io.parse_items(raw, MAX_ITEMS))
    events = [one for one in read if isinstance(one, IncomingEvent)]
    addressed = iter(await replica.intake.address_all(caller.tenant, events))
    offers = [next(addressed) if isinstance(one, IncomingEvent) else one for one in read]
    unaddressed = [offer for offer in offers if isinstance(offer, UnaddressedEvent)]
    await replica.intake.park(unaddressed)
    results = await _results(replica, offers, brief=not caller.sees_expected)
    verdicts = [result["body"]["verdict"] for result in results if "body" in result]
    for verdict in [*verdicts, *(Verdict.REJECTED for _ in unaddressed)]:
        replica.metrics.count_event(ingress.channel, verdict)
    return json_io.json_response({"results": results})


def _read(ingress: _Ingress, label: str, raw: msgspec.Raw) -> IncomingEvent | Problem:
    """Read one item of a batch; a faulty item does not affect the others."""
    try:
        item = json_io.decode_event_item(raw)
        if item is not None and are_valid_ids(
            item.execution_id, item.correlation_id, item.event_id
        ):
            return _event(ingress, label, bytes(item.body), item)
        content, rest = json_io.split_body(raw)
        return _event(ingress, label, content, json_io.parse_as(EventItem, rest))
    except ProblemError as error:
        return error.problem


async def _results(
    replica: Replica, offers: Sequence[Offer | UnaddressedEvent | Problem], *, brief: bool
) -> list[Document]:
    """Send the offers; every item gets its result, in order."""
    messages: list[WaitMessage] = [offer for offer in offers if isinstance(offer, Offer)]
    replies = iter(await replica.client.send_many(messages) if messages else [])
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
            problem = missing_id_problem(offer.missing)
        case Problem():
            problem = offer
        case _:
            raise MusterError("an event of a batch got no reply")
    return {"status": problem.status, "problem": problem.document()}


def _event(
    ingress: _Ingress, label: str, content: bytes, item: EventItem | RawEventItem
) -> IncomingEvent:
    ids = {"x-execution-id": item.execution_id, "x-correlation-id": item.correlation_id}
    return IncomingEvent(
        source=ingress.source,
        channel=ingress.channel,
        label=label,
        raw=content,
        body=json_io.parse(content),
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
