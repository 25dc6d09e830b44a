"""Gathers: ask several resources at once, and stream their answers or wait for them all."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from core.access.tokens import STREAM
from core.waits.messages import Cancel
from core.waits.output import payloads_of
from serve_app.gathers.models import GatherRequest, GatherStarted, GatherView
from serve_app.gathers.responses import (
    STREAM_RESPONSES,
    EndedGather,
    gather_address,
    run_gather,
    stream_answers,
)
from serve_app.gathers.service import StartedGather, StoredGather, continue_trace
from serve_app.http.event_replies import check_cancelled
from serve_app.http.json_io import headers_of
from serve_app.http.router import Context, HttpRouter
from serve_app.http.sse import LastEventId, LastEventIdHeader, cursor_of
from services.shared.process import new_turn_id
from services.shared.time_slice import offload_if_large
from storage.waits import waits

router = HttpRouter("/api/gathers", tag="gathers", access="gathers")

GatherId = Annotated[str, Path(alias="id", pattern=r"^[0-9A-Za-z-]{1,64}$")]


@router.post(status=202, answers={202: GatherStarted, 200: GatherView}, logs=False)
async def begin_gather(body: GatherRequest, context: Context) -> Response:
    """Ask all resources at once; mode `wait` answers after the last answer or the timeout."""
    spec = body.to_spec(continue_trace(headers_of(context.request).get("traceparent")))

    def render_started(started: StartedGather) -> tuple[int, bytes]:
        gather_id = started.address.correlation_id
        url = f"{context.replica.config.public_url}/api/gathers/{gather_id}"
        view = GatherStarted.of(
            {
                "id": gather_id,
                "correlation_id": gather_id,
                "status": started.opened.status,
                "accepted": started.accepted,
                "resources": [ask.name for ask in spec.asks],
                "timeout_ms": started.timeout_ms,
                "expires_at": started.opened.expires_at,
                "url": url,
                "stream_url": f"{url}/stream?token={started.stream_token}",
            }
        )
        return 202, view.to_json()

    def render_ended(ended: EndedGather) -> bytes:
        return GatherView.of_wait(ended.wait, spec, ended.payloads).to_json()

    return await run_gather(context, spec, body.timeout_ms, render_started, render_ended)


@router.get("/{id}", refuses=(404,))
async def show_gather(gather_id: GatherId, context: Context) -> GatherView:
    """Show the state of a gather and of each resource."""
    address = gather_address(context.caller, gather_id)
    return await _view(context, await context.replica.gather_service.find(address))


@router.get("/{id}/stream", token=STREAM, response_class=Response, responses=STREAM_RESPONSES)
async def stream_gather(
    gather_id: GatherId,
    context: Context,
    last_event_id: LastEventIdHeader = None,
    last_event_id_parameter: LastEventId = None,
) -> Response:
    """Stream a gather from its beginning, or after the last id that the reader has seen."""
    cursor = cursor_of(last_event_id, last_event_id_parameter)
    return await stream_answers(context, gather_id, cursor)


@router.delete("/{id}", refuses=(404, 409), logs=False)
async def cancel_gather(gather_id: GatherId, context: Context) -> GatherView:
    """Cancel a gather that has not ended; calls in progress are aborted."""
    replica, address = context.replica, gather_address(context.caller, gather_id)
    await replica.gather_service.find(address)
    check_cancelled(await replica.client.send(Cancel(address=address, turn_id=new_turn_id())))
    return await _view(context, await replica.gather_service.find(address))


async def _view(context: Context, gather: StoredGather) -> GatherView:
    wait = gather.row.wait
    counted = await context.replica.database.query(waits.read_counted, wait)
    return await offload_if_large(
        lambda: GatherView.of_wait(wait, gather.asked, payloads_of(wait, counted)),
        waits.size_of(counted),
    )
