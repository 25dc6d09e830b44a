"""Gathers: ask several resources at once, and stream their answers or wait for them all."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.access.tokens import STREAM, TOKEN_SCOPE
from core.gathers.gather import GatherMode, GatherSpec
from core.shared.address import Address
from core.shared.errors import ForbiddenError, NotFoundError
from core.shared.timestamps import to_iso
from core.waits.messages import Cancel
from core.waits.output import payloads_of
from core.waits.state import Wait
from serve_app.container import Replica
from serve_app.gathers.disconnects import begin_blocking, run_unless_disconnected, stream_frames
from serve_app.gathers.models import GatherRequest, GatherStarted, GatherView
from serve_app.gathers.rendering import gather_document
from serve_app.gathers.service import (
    StartedGather,
    StoredGather,
    cap_timeout,
    continue_trace,
    disconnect_policy_of,
    disconnect_policy_of_reader,
)
from serve_app.http.event_replies import check_cancelled
from serve_app.http.json_io import headers_of, json_response, parse_as, read_body
from serve_app.http.models import Document
from serve_app.http.openapi import describe_responses, describe_stream, json_body
from serve_app.http.permissions import (
    caller_of,
    replica_of,
    request_slot_of,
    requires,
    requires_or_token,
)
from serve_app.streams.formats import gather_format
from serve_app.streams.hub import is_at_end
from serve_app.streams.sse import FROM_START, EventStream
from services.shared.process import new_turn_id
from services.shared.time_slice import offload_if_large
from storage.waits import waits

router = APIRouter(prefix="/api/gathers", tags=["gathers"])

GatherId = Annotated[str, Path(alias="id", pattern=r"^[0-9A-Za-z-]{1,64}$")]
LastEventId = Annotated[int | None, Query(alias="lastEventId", ge=0, lt=2**31)]
STREAM_RESPONSES = describe_stream(
    "Server-sent events: callback, rejected, timeout, error, and at the end summary.",
    {"type": "object"},
)
LastEventIdHeader = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class EndedGather:
    """A gather that has ended, and what came for each resource."""

    wait: Wait
    payloads: dict[str, bytes]


@router.post(
    "",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="beginGather",
    status_code=202,
    responses=describe_responses({202: GatherStarted, 200: GatherView}),
    openapi_extra=json_body(GatherRequest),
)
async def begin_gather(request: Request) -> Response:
    """Ask all resources at once; mode `wait` answers when each has, or when time is over."""
    replica = replica_of(request)
    body = parse_as(GatherRequest, await read_body(request, replica.config.request_timeout))
    timeout_ms, headers = cap_timeout(body.timeout_ms)
    asked = body.to_asked(continue_trace(headers_of(request).get("traceparent")))
    with replica.metrics.gathers.request(asked.mode):
        tenant = caller_of(request).tenant
        if body.mode is GatherMode.STREAM:
            started = await replica.gather_service.begin(tenant, asked, timeout_ms)
            names = [ask.name for ask in asked.asks]
            document = _started_document(replica, started, names, timeout_ms)
            return json_response(document, 202, headers)
        end = await gather_blocking(request, tenant, asked, timeout_ms)
    if end is None:
        return Response(status_code=499)
    size = sum(map(len, end.payloads.values()))
    return await offload_if_large(
        lambda: json_response(gather_document(end.wait, asked, end.payloads), 200, headers), size
    )


@router.get(
    "/{id}",
    dependencies=[requires(Permission.GATHERS_READ)],
    operation_id="showGather",
    responses=describe_responses({200: GatherView}, 404),
)
async def show_gather(request: Request, gather_id: GatherId) -> Response:
    """Show how a gather and each of its resources stand."""
    replica = replica_of(request)
    gathering = await replica.gather_service.find(_address(request, gather_id))
    return await _view(replica, gathering)


@router.get(
    "/{id}/stream",
    dependencies=[requires_or_token(Permission.GATHERS_READ, STREAM)],
    operation_id="streamGather",
    response_class=Response,
    responses=STREAM_RESPONSES,
)
async def stream_gather(
    request: Request,
    gather_id: GatherId,
    last_event_id: LastEventIdHeader = None,
    last_event_id_parameter: LastEventId = None,
) -> Response:
    """Follow a gather; from its beginning, or after the last id that was seen."""
    given = last_event_id if last_event_id is not None else last_event_id_parameter
    return await stream_answers(request, gather_id, FROM_START if given is None else given)


@router.delete(
    "/{id}",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="cancelGather",
    responses=describe_responses({200: GatherView}, 404, 409),
)
async def cancel_gather(request: Request, gather_id: GatherId) -> Response:
    """Cancel a gather that has not ended; calls under way are broken off."""
    replica, address = replica_of(request), _address(request, gather_id)
    await replica.gather_service.find(address)
    check_cancelled(await replica.client.send(Cancel(address=address, turn_id=new_turn_id())))
    return await _view(replica, await replica.gather_service.find(address))


async def stream_answers(request: Request, gather_id: str, cursor: int) -> Response:
    """The stream of a gather, in the words it was asked in."""
    replica, address = replica_of(request), _address(request, gather_id)
    gathering = await replica.gather_service.find(address)
    if is_at_end(cursor, gathering.row.wait):
        return Response(status_code=204)  # what makes a browser stop coming back
    request_slot_of(request).count_as_stream()
    stream_format = gather_format(gathering.asked)
    policy = disconnect_policy_of_reader(gathering.asked, caller_of(request))
    frames = stream_frames(replica, address, stream_format, cursor, policy)
    return EventStream(replica.metrics.gathers.stream(frames))


async def gather_blocking(
    request: Request, tenant: int, asked: GatherSpec, timeout_ms: int
) -> EndedGather | None:
    """Begin a gather and wait for its end; None if the caller went away.

    Raises:
        NotFoundError: It was forgotten while it was waited for.
        UnavailableError: Its end could not be read in time.
    """
    request_slot_of(request).count_as_stream()
    replica = replica_of(request)
    started = await begin_blocking(replica, tenant, asked, timeout_ms)
    timeout_seconds = timeout_ms / 1000 + replica.config.request_timeout
    async with replica.hub.open(
        started.address, gather_format(asked), disconnect_policy_of(asked)
    ) as channel:
        if not await run_unless_disconnected(request, channel.ended_within(timeout_seconds)):
            return None
    if channel.result is None:
        raise NotFoundError(f"gather {started.address.correlation_id}")
    wait = channel.result.wait
    counted = await replica.database.query(waits.read_counted, wait)
    return EndedGather(wait, payloads_of(wait, counted))


def _address(request: Request, gather_id: str) -> Address:
    """The gather that is meant, within the caller's tenant; a token allows its own only."""
    caller = caller_of(request)
    address = Address(caller.tenant, gather_id, gather_id)
    if caller.address is not None and caller.address != address:
        raise ForbiddenError("this token is for another gather", TOKEN_SCOPE)
    return address


async def _view(replica: Replica, gathering: StoredGather) -> Response:
    wait = gathering.row.wait
    counted = await replica.database.query(waits.read_counted, wait)
    return await offload_if_large(
        lambda: json_response(gather_document(wait, gathering.asked, payloads_of(wait, counted))),
        waits.size_of(counted),
    )


def _started_document(
    replica: Replica, started: StartedGather, names: list[str], timeout_ms: int
) -> Document:
    gather_id = started.address.correlation_id
    url = f"{replica.config.public_url}/api/gathers/{gather_id}"
    return {
        "id": gather_id,
        "correlationId": gather_id,
        "status": started.opened.status,
        "accepted": started.accepted,
        "resources": names,
        "timeoutMs": timeout_ms,
        "expiresAt": to_iso(started.opened.expires_at),
        "url": url,
        "streamUrl": f"{url}/stream?token={started.stream_token}",
    }
