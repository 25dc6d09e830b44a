"""Gathers: ask several resources at once, and stream their answers or wait for them all."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.access.tokens import STREAM
from core.gathers.gather import GatherMode
from core.shared.timestamps import to_iso
from core.waits.messages import Cancel
from core.waits.output import payloads_of
from serve_app.container import Replica
from serve_app.gathers.models import GatherRequest, GatherStarted, GatherView
from serve_app.gathers.rendering import gather_document
from serve_app.gathers.responses import (
    STREAM_RESPONSES,
    gather_address,
    gather_blocking,
    stream_answers,
)
from serve_app.gathers.service import (
    StartedGather,
    StoredGather,
    cap_timeout,
    continue_trace,
)
from serve_app.http.event_replies import check_cancelled
from serve_app.http.json_io import headers_of, json_response, parse_as, read_body
from serve_app.http.models import Document
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import (
    caller_of,
    replica_of,
    requires,
    requires_or_token,
)
from serve_app.http.sse import LastEventId, LastEventIdHeader, cursor_of
from services.shared.process import new_turn_id
from services.shared.time_slice import offload_if_large
from storage.waits import waits

router = APIRouter(prefix="/api/gathers", tags=["gathers"])

GatherId = Annotated[str, Path(alias="id", pattern=r"^[0-9A-Za-z-]{1,64}$")]


@router.post(
    "",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="beginGather",
    status_code=202,
    responses=describe_responses({202: GatherStarted, 200: GatherView}),
    openapi_extra=json_body(GatherRequest),
)
async def begin_gather(request: Request) -> Response:
    """Ask all resources at once; mode `wait` answers after the last answer or the timeout."""
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
    """Show the state of a gather and of each resource."""
    replica = replica_of(request)
    gathering = await replica.gather_service.find(gather_address(request, gather_id))
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
    """Stream a gather from its beginning, or after the last id that the reader has seen."""
    cursor = cursor_of(last_event_id, last_event_id_parameter)
    return await stream_answers(request, gather_id, cursor)


@router.delete(
    "/{id}",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="cancelGather",
    responses=describe_responses({200: GatherView}, 404, 409),
)
async def cancel_gather(request: Request, gather_id: GatherId) -> Response:
    """Cancel a gather that has not ended; calls in progress are aborted."""
    replica, address = replica_of(request), gather_address(request, gather_id)
    await replica.gather_service.find(address)
    check_cancelled(await replica.client.send(Cancel(address=address, turn_id=new_turn_id())))
    return await _view(replica, await replica.gather_service.find(address))


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
