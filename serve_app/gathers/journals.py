"""The journals interface: gathers from three fixed resources, in another format."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from fastapi import Query
from starlette.responses import Response

from core.access.permissions import Permission
from core.access.tokens import CALLBACK, STREAM, TOKEN_SCOPE
from core.gathers import gather
from core.gathers.gather import GatherMode, GatherSpec, Question, ReplyBy, Resource
from core.shared.address import Address, check_id
from core.shared.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from core.waits.messages import Offer
from core.waits.spec import Source
from serve_app.gathers.journals_format import FORMAT, journal_result
from serve_app.gathers.journals_models import (
    JournalCallback,
    JournalsRequest,
    JournalsResult,
    JournalsStarted,
)
from serve_app.gathers.responses import STREAM_RESPONSES, EndedGather, run_gather, stream_answers
from serve_app.gathers.service import StartedGather, continue_trace
from serve_app.http.auth import Caller
from serve_app.http.event_replies import EventReply, event_reply_document
from serve_app.http.json_io import headers_of, json_response, parse
from serve_app.http.router import Context, HttpRouter
from serve_app.http.sse import LastEventId, LastEventIdHeader, cursor_of
from services.shared.process import new_turn_id

RESOURCES = ("resource-1", "resource-2", "resource-3")

router = HttpRouter("", tag="journals", access="gathers")


@router.post(
    "/aggregate/journals",
    refuses=(409,),
    logs=False,
    responses={
        200: {
            "model": JournalsStarted | JournalsResult,
            "description": "Where to follow them (SSE), or all of them (WAIT_FOR_EVERYONE).",
        }
    },
)
@router.post("/journals", logs=False, include_in_schema=False)
async def gather_journals(body: JournalsRequest, context: Context) -> Response:
    """Ask the three resources for a patient's journals."""
    await _check_registered(context)
    trace = continue_trace(headers_of(context.request).get("traceparent"))
    spec = _spec_of(body, context.replica.config.journal_urls, trace)

    def render_started(started: StartedGather) -> tuple[int, bytes]:
        correlation_id = started.address.correlation_id
        query = f"correlationId={correlation_id}&token={started.stream_token}"
        view = JournalsStarted(
            respondents=started.accepted,
            correlation_id=correlation_id,
            timeout_ms=started.timeout_ms,
            stream_url=f"{context.replica.config.public_url}/aggregate/stream?{query}",
        )
        return 200, view.to_json()

    def render_ended(ended: EndedGather) -> bytes:
        return msgspec.json.encode(journal_result(ended.wait, body.patient_id, ended.payloads))

    timeout_ms = body.timeout_ms or gather.DEFAULT_TIMEOUT_MS
    return await run_gather(context, spec, timeout_ms, render_started, render_ended)


@router.get("/aggregate/stream", token=STREAM, response_class=Response, responses=STREAM_RESPONSES)
async def stream_journals(
    context: Context,
    correlation_id: Annotated[str, Query(alias="correlationId", min_length=1, max_length=255)],
    last_event_id: LastEventIdHeader = None,
    last_event_id_parameter: LastEventId = None,
) -> Response:
    """Stream the journals from the beginning, or after the last id that the reader has seen."""
    if check_id(correlation_id) is None:
        raise NotFoundError("a gather with such an id")
    cursor = cursor_of(last_event_id, last_event_id_parameter)
    return await stream_answers(context, correlation_id, cursor)


@router.post(
    "/aggregate/callback",
    needs=Permission.CALLBACKS_WRITE,
    token=CALLBACK,
    answers={200: EventReply},
    logs=False,
)
async def send_journal_callback(body: JournalCallback, context: Context) -> Response:
    """Send a resource's journals; each source counts once, however often it sends them."""
    caller, document = context.caller, parse(context.body)
    caller.check_source(body.source)
    turn_id = new_turn_id()
    offer = Offer(
        address=_address(caller, body.correlation_id),
        turn_id=turn_id,
        event_id=f"api/{body.source}/{turn_id}",
        source=Source.API,
        label=body.source,
        payload=context.body,
        outcome=gather.outcome_reported(document),
        by_token=caller.address is not None,
    )
    reply = await context.replica.client.send(offer)
    verdict = event_reply_document(offer, reply, brief=not caller.sees_expected)
    context.replica.metrics.count_event("api", verdict["verdict"])
    return json_response(verdict)


def _address(caller: Caller, correlation_id: str) -> Address:
    if check_id(correlation_id) is None:
        raise InvalidError("correlationId", "printable characters, without a space at either end")
    address = Address(caller.tenant, correlation_id, correlation_id)
    if caller.address is not None and caller.address != address:
        raise ForbiddenError("correlationId is not the one this token is for", TOKEN_SCOPE)
    return address


async def _check_registered(context: Context) -> None:
    if context.replica.config.journal_urls:
        return
    missing = await context.replica.gather_service.find_missing(context.tenant, list(RESOURCES))
    if missing:
        raise ConflictError(
            f"{', '.join(missing)} must be registered first: PUT /api/resources/{missing[0]}, or "
            "set MUSTER_JOURNAL_URLS; `muster demo gather --keep` starts some to try"
        )


def _spec_of(body: JournalsRequest, urls: Sequence[str], trace: str) -> GatherSpec:
    is_direct = body.mode is GatherMode.WAIT
    reply, path = (ReplyBy.DIRECT, "/direct") if is_direct else (ReplyBy.CALLBACK, "")
    asks: list[Question] = []
    for index, name in enumerate(RESOURCES):
        question = {"patientId": body.patient_id, "delay": body.delay(index)}
        # A resource without a URL is asked at the first URL.
        url = urls[index if index < len(urls) else 0] if urls else None
        asks.append(
            Question(
                name=name,
                inline=None if url is None else Resource(url=url),
                path=path,
                reply=reply,
                body=msgspec.Raw(msgspec.json.encode(question)),
            )
        )
    return GatherSpec(
        asks=tuple(asks),
        context=msgspec.Raw(msgspec.json.encode({"patientId": body.patient_id})),
        mode=body.mode,
        on_disconnect=body.on_disconnect,
        grace=body.grace_ms / 1000,
        trace=trace,
        callback_path="/aggregate/callback",
        format=FORMAT,
        ids_in_body=True,
        reads_status=True,
        fixed_names=True,
    )
