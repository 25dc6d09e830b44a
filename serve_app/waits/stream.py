"""The history of one wait: as a live stream, as a log, and explained in words."""

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from core.access.permissions import Permission
from core.waits.explain import explain
from serve_app.http import sse
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_stream
from serve_app.http.permissions import WaitAddress, request_slot_of
from serve_app.http.router import Context, HttpRouter
from serve_app.http.sse import EventStream, LastEventId, LastEventIdHeader
from serve_app.streams.hub import is_at_end
from serve_app.waits.rendering import WAIT_FORMAT, includes_end, log_documents
from serve_app.waits.wait_models import ExplainView, LogView
from serve_app.waits.waits import ONE_WAIT, read_wait
from services.shared.time_slice import offload_if_large
from storage.waits import inbox, waits
from storage.waits.waits import size_of

router = HttpRouter("/api/wait-states", tag="waits", reads=Permission.WAITS_READ)

After = Annotated[int, Query(ge=sse.FROM_START, lt=2**31)]

_ENTRY = {"$ref": "#/components/schemas/LogEntry"}


@router.get(
    f"{ONE_WAIT}/stream",
    response_class=Response,
    responses=describe_stream(
        "Server-sent events: registered, what came, ended. Each `data` is a LogEntry; the stream "
        "closes after `ended`.",
        _ENTRY,
    ),
)
async def stream_wait(
    address: WaitAddress,
    context: Context,
    last_event_id: LastEventIdHeader = None,
    last_event_id_parameter: LastEventId = None,
) -> Response:
    """Stream a wait live, from its beginning or after the last id that the reader has seen."""
    cursor = sse.cursor_of(last_event_id, last_event_id_parameter)
    wait_row = await read_wait(context.replica, address)
    if is_at_end(cursor, wait_row.wait):
        return Response(status_code=204)  # makes a browser stop reconnecting
    request_slot_of(context.request).count_as_stream()
    return EventStream(context.replica.hub.frames(address, WAIT_FORMAT, cursor))


@router.get(f"{ONE_WAIT}/log", answers={200: LogView}, refuses=(404,))
async def read_wait_log(
    address: WaitAddress, context: Context, after: After = sse.FROM_START
) -> Response:
    """Read the log in pages, late events included."""
    database = context.replica.database
    wait_row = await read_wait(context.replica, address)
    page = await database.query(waits.read_log, address.key, max(after, 0))
    # The end includes the result, which is read only for the page that has the end.
    has_end = includes_end(wait_row.wait, page, after)
    counted = await database.query(waits.read_counted, wait_row.wait) if has_end else []

    def build() -> Response:
        items = log_documents(wait_row.wait, page, after, counted)
        return json_response(
            {"items": items, "nextAfter": page.entries[-1].seq if page.more else None}
        )

    return await offload_if_large(build, size_of([*page.entries, *counted]))


@router.get(f"{ONE_WAIT}/explain", refuses=(404,))
async def explain_wait(address: WaitAddress, context: Context) -> ExplainView:
    """Explain why a wait still waits or why it ended, and which events nearly matched."""
    replica = context.replica
    wait_row = await read_wait(replica, address)
    parked = await replica.database.query(inbox.near_misses, address)
    return ExplainView.of(explain(wait_row.wait, parked, replica.client.clock.now()))
