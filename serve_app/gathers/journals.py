"""The journals interface: a thin façade on gathers, in its own words."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from actors.runtime.actor import mint
from core.access.permissions import Permission
from core.access.tokens import STREAM
from core.gathers.gather import (
    DEFAULT_TIMEOUT_MS,
    Ask,
    Asked,
    Mode,
    ReplyBy,
    Resource,
    outcome_said,
)
from core.shared.address import Address, check_id
from core.shared.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from core.waits.messages import Offer
from core.waits.spec import Source
from serve_app.container import Replica
from serve_app.gathers.gathers import ANSWERS, LastSeen, LastSeenHeader, gather_held, stream_answers
from serve_app.gathers.models import JournalCallback, JournalsBegun, JournalsRequest, JournalsResult
from serve_app.gathers.rendering import journal_result
from serve_app.gathers.service import capped, context_of, trace_of
from serve_app.http.auth import TOKEN_SCOPE
from serve_app.http.headers import headers_of
from serve_app.http.json_io import answer, parse, parse_as, read_body
from serve_app.http.openapi import body, described
from serve_app.http.permissions import caller_of, replica_of, requires, requires_or_token
from serve_app.streams.sse import FROM_START
from serve_app.waits.event_models import EventReply
from serve_app.waits.replies import judged_document
from services.shared.time_slice import apart

RESOURCES = ("resource-1", "resource-2", "resource-3")

router = APIRouter(tags=["journals"])


@router.post(
    "/aggregate/journals",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="gatherJournals",
    responses={
        200: {
            "model": JournalsBegun | JournalsResult,
            "description": "Where to follow them (SSE), or all of them (WAIT_FOR_EVERYONE).",
        },
        **described({}, 409),
    },
    openapi_extra=body(JournalsRequest),
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
    wish = parse_as(JournalsRequest, await read_body(request, replica.config.request_timeout))
    timeout_ms, headers = capped(wish.timeout_ms or DEFAULT_TIMEOUT_MS)
    await _check_registered(replica, tenant)
    asked = _asked(wish, replica, trace_of(headers_of(request).get("traceparent")))
    with replica.metrics.gathers.request(asked.mode):
        if asked.mode is Mode.STREAM:
            begun = await replica.gatherer.begin(tenant, asked, timeout_ms)
            correlation_id = begun.address.correlation_id
            stream = f"{replica.config.public_url}/aggregate/stream"
            query = f"correlationId={correlation_id}&token={begun.stream_token}"
            document = {
                "respondents": begun.agreed,
                "correlationId": correlation_id,
                "timeoutMs": timeout_ms,
                "streamUrl": f"{stream}?{query}",
            }
            return answer(document, 200, headers)
        end = await gather_held(request, tenant, asked, timeout_ms)
    if end is None:
        return Response(status_code=499)
    size = sum(map(len, end.payloads.values()))
    return await apart(
        lambda: answer(journal_result(end.wait, wish.patient_id, end.payloads), 200, headers), size
    )


@router.get(
    "/aggregate/stream",
    dependencies=[requires_or_token(Permission.GATHERS_READ, STREAM)],
    operation_id="streamJournals",
    response_class=Response,
    responses=ANSWERS,
)
async def stream_journals(
    request: Request,
    correlation_id: Annotated[str, Query(alias="correlationId", min_length=1, max_length=255)],
    last_event_id: LastSeenHeader = None,
    last_event_id_parameter: LastSeen = None,
) -> Response:
    """Follow the journals; from the beginning, or after the last id that was seen."""
    if check_id(correlation_id) is None:
        raise NotFoundError("a gather with such an id")
    given = last_event_id if last_event_id is not None else last_event_id_parameter
    return await stream_answers(request, correlation_id, FROM_START if given is None else given)


@router.post(
    "/aggregate/callback",
    dependencies=[requires_or_token(Permission.CALLBACKS_WRITE)],
    operation_id="sendJournalCallback",
    responses=described({200: EventReply}),
    openapi_extra=body(JournalCallback),
)
async def take_callback(request: Request) -> Response:
    """Hand in a resource's journals; once for each source, however often it is sent."""
    replica = replica_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    document = parse(raw)
    callback = parse_as(JournalCallback, raw)
    caller_of(request).check_source(callback.source)
    turn_id = mint()
    offer = Offer(
        address=_address(request, callback.correlation_id),
        turn_id=turn_id,
        event_id=f"api/{callback.source}/{turn_id}",
        source=Source.API,
        label=callback.source,
        payload=raw,
        outcome=outcome_said(document),
        by_token=caller_of(request).address is not None,
    )
    reply = await replica.gateway.send(offer)
    told = judged_document(offer, reply, brief=not caller_of(request).sees_expected)
    replica.metrics.arrived("api", told["verdict"])
    return answer(told)


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
    missing = await replica.gatherer.missing(tenant, list(RESOURCES))
    if missing:
        raise ConflictError(
            f"{', '.join(missing)} must be registered first: PUT /api/resources/{missing[0]}, or "
            "set MUSTER_JOURNAL_URLS; `muster demo gather --keep` starts some to try"
        )


def _asked(wish: JournalsRequest, replica: Replica, trace: str) -> Asked:
    is_direct = wish.mode is Mode.WAIT
    urls = replica.config.journal_urls
    asks: list[Ask] = []
    for index, name in enumerate(RESOURCES):
        told = {"patientId": wish.patient_id, "delay": wish.delay(index)}
        reply, path = (ReplyBy.DIRECT, "/direct") if is_direct else (ReplyBy.CALLBACK, "")
        inline = None
        if urls:
            # The first serves for those that have none of their own.
            url = urls[index] if index < len(urls) else urls[0]
            inline = Resource(url=url)
        asks.append(
            Ask(
                name=name,
                inline=inline,
                path=path,
                reply=reply,
                body=msgspec.Raw(msgspec.json.encode(told)),
            )
        )
    return Asked(
        asks=tuple(asks),
        context=context_of({"patientId": wish.patient_id}),
        mode=wish.mode,
        on_disconnect=wish.on_disconnect,
        grace=wish.grace_ms / 1000,
        journals=True,
        trace=trace,
    )
