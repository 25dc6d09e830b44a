"""The journals interface: gathers from three fixed resources, in another format."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.access.tokens import STREAM, TOKEN_SCOPE
from core.gathers.gather import (
    DEFAULT_TIMEOUT_MS,
    GatherMode,
    GatherSpec,
    Question,
    ReplyBy,
    Resource,
    outcome_reported,
)
from core.shared.address import Address, check_id
from core.shared.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from core.waits.messages import Offer
from core.waits.spec import Source
from serve_app.container import Replica
from serve_app.gathers.journals_format import FORMAT, journal_result
from serve_app.gathers.journals_models import (
    JournalCallback,
    JournalsRequest,
    JournalsResult,
    JournalsStarted,
)
from serve_app.gathers.responses import STREAM_RESPONSES, gather_blocking, stream_answers
from serve_app.gathers.service import cap_timeout, continue_trace, encode_context
from serve_app.http.event_replies import EventReply, event_reply_document
from serve_app.http.json_io import headers_of, json_response, parse, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires, requires_or_token
from serve_app.http.sse import LastEventId, LastEventIdHeader, cursor_of
from services.shared.process import new_turn_id
from services.shared.time_slice import offload_if_large

RESOURCES = ("resource-1", "resource-2", "resource-3")

router = APIRouter(tags=["journals"])


@router.post(
    "/aggregate/journals",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="gatherJournals",
    responses={
        200: {
            "model": JournalsStarted | JournalsResult,
            "description": "Where to follow them (SSE), or all of them (WAIT_FOR_EVERYONE).",
        },
        **describe_responses({}, 409),
    },
    openapi_extra=json_body(JournalsRequest),
)
@router.post(
    "/journals",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="gatherJournalsShort",
    include_in_schema=False,
)
async def gather_journals(request: Request) -> Response:
    """Ask the three resources for a patient's journals."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    journals_request = parse_as(
        JournalsRequest, await read_body(request, replica.config.request_timeout)
    )
    timeout_ms, headers = cap_timeout(journals_request.timeout_ms or DEFAULT_TIMEOUT_MS)
    await _check_registered(replica, tenant)
    asked = _asked(
        journals_request, replica, continue_trace(headers_of(request).get("traceparent"))
    )
    with replica.metrics.gathers.request(asked.mode):
        if asked.mode is GatherMode.STREAM:
            started = await replica.gather_service.begin(tenant, asked, timeout_ms)
            correlation_id = started.address.correlation_id
            stream = f"{replica.config.public_url}/aggregate/stream"
            query = f"correlationId={correlation_id}&token={started.stream_token}"
            document = {
                "respondents": started.accepted,
                "correlationId": correlation_id,
                "timeoutMs": timeout_ms,
                "streamUrl": f"{stream}?{query}",
            }
            return json_response(document, 200, headers)
        end = await gather_blocking(request, tenant, asked, timeout_ms)
    if end is None:
        return Response(status_code=499)
    size = sum(map(len, end.payloads.values()))
    return await offload_if_large(
        lambda: json_response(
            journal_result(end.wait, journals_request.patient_id, end.payloads), 200, headers
        ),
        size,
    )


@router.get(
    "/aggregate/stream",
    dependencies=[requires_or_token(Permission.GATHERS_READ, STREAM)],
    operation_id="streamJournals",
    response_class=Response,
    responses=STREAM_RESPONSES,
)
async def stream_journals(
    request: Request,
    correlation_id: Annotated[str, Query(alias="correlationId", min_length=1, max_length=255)],
    last_event_id: LastEventIdHeader = None,
    last_event_id_parameter: LastEventId = None,
) -> Response:
    """Stream the journals from the beginning, or after the last id that the reader has seen."""
    if check_id(correlation_id) is None:
        raise NotFoundError("a gather with such an id")
    cursor = cursor_of(last_event_id, last_event_id_parameter)
    return await stream_answers(request, correlation_id, cursor)


@router.post(
    "/aggregate/callback",
    dependencies=[requires_or_token(Permission.CALLBACKS_WRITE)],
    operation_id="sendJournalCallback",
    responses=describe_responses({200: EventReply}),
    openapi_extra=json_body(JournalCallback),
)
async def take_callback(request: Request) -> Response:
    """Send a resource's journals; each source counts once, however often it sends them."""
    replica = replica_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    document = parse(raw)
    callback = parse_as(JournalCallback, raw)
    caller_of(request).check_source(callback.source)
    turn_id = new_turn_id()
    offer = Offer(
        address=_address(request, callback.correlation_id),
        turn_id=turn_id,
        event_id=f"api/{callback.source}/{turn_id}",
        source=Source.API,
        label=callback.source,
        payload=raw,
        outcome=outcome_reported(document),
        by_token=caller_of(request).address is not None,
    )
    reply = await replica.client.send(offer)
    told = event_reply_document(offer, reply, brief=not caller_of(request).sees_expected)
    replica.metrics.count_event("api", told["verdict"])
    return json_response(told)


def _address(request: Request, correlation_id: str) -> Address:
    caller = caller_of(request)
    if check_id(correlation_id) is None:
        raise InvalidError("correlationId", "printable characters, without a space at either end")
    address = Address(caller.tenant, correlation_id, correlation_id)
    if caller.address is not None and caller.address != address:
        raise ForbiddenError("correlationId is not the one this token is for", TOKEN_SCOPE)
    return address


async def _check_registered(replica: Replica, tenant: int) -> None:
    if replica.config.journal_urls:
        return
    missing = await replica.gather_service.find_missing(tenant, list(RESOURCES))
    if missing:
        raise ConflictError(
            f"{', '.join(missing)} must be registered first: PUT /api/resources/{missing[0]}, or "
            "set MUSTER_JOURNAL_URLS; `muster demo gather --keep` starts some to try"
        )


def _asked(journals_request: JournalsRequest, replica: Replica, trace: str) -> GatherSpec:
    is_direct = journals_request.mode is GatherMode.WAIT
    urls = replica.config.journal_urls
    asks: list[Question] = []
    for index, name in enumerate(RESOURCES):
        told = {"patientId": journals_request.patient_id, "delay": journals_request.delay(index)}
        reply, path = (ReplyBy.DIRECT, "/direct") if is_direct else (ReplyBy.CALLBACK, "")
        inline = None
        if urls:
            # A resource without a URL is asked at the first URL.
            url = urls[index] if index < len(urls) else urls[0]
            inline = Resource(url=url)
        asks.append(
            Question(
                name=name,
                inline=inline,
                path=path,
                reply=reply,
                body=msgspec.Raw(msgspec.json.encode(told)),
            )
        )
    return GatherSpec(
        asks=tuple(asks),
        context=encode_context({"patientId": journals_request.patient_id}),
        mode=journals_request.mode,
        on_disconnect=journals_request.on_disconnect,
        grace=journals_request.grace_ms / 1000,
        trace=trace,
        callback_path="/aggregate/callback",
        format=FORMAT,
        ids_in_body=True,
        reads_status=True,
        fixed_names=True,
    )
