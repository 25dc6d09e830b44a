"""The history of one wait: as a live stream, as a log, and explained in words."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.address import Address
from core.waits.explain import explain
from serve_app.container import Replica
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses, describe_stream
from serve_app.http.permissions import WaitAddress, replica_of, request_slot_of, requires
from serve_app.http.sse import (
    FROM_START,
    EventStream,
    LastEventId,
    LastEventIdHeader,
    cursor_of,
)
from serve_app.streams.hub import is_at_end
from serve_app.waits.rendering import explanation_document, includes_end, log_documents
from serve_app.waits.stream_format import WAIT_FORMAT
from serve_app.waits.wait_models import ExplainView, LogView
from serve_app.waits.waits import read_wait
from services.shared.time_slice import offload_if_large
from storage.waits import inbox, waits
from storage.waits.waits import size_of

router = APIRouter(tags=["waits"])

After = Annotated[int, Query(ge=FROM_START, lt=2**31)]

_ENTRY = {"$ref": "#/components/schemas/LogEntry"}


@router.get(
    "/api/wait-states/{executionId}/{correlationId}/stream",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="streamWait",
    response_class=Response,
    responses=describe_stream(
        "Server-sent events: registered, what came, ended. Each `data` is a LogEntry; the stream "
        "closes after `ended`.",
        _ENTRY,
    ),
)
async def stream_wait(
    request: Request,
    address: WaitAddress,
    last_event_id: LastEventIdHeader = None,
    last_event_id_parameter: LastEventId = None,
) -> Response:
    """Stream a wait live, from its beginning or after the last id that the reader has seen."""
    replica = replica_of(request)
    cursor = cursor_of(last_event_id, last_event_id_parameter)
    wait_row = await read_wait(replica, address)
    if is_at_end(cursor, wait_row.wait):
        return Response(status_code=204)  # makes a browser stop reconnecting
    request_slot_of(request).count_as_stream()
    return EventStream(_frames(replica, address, cursor))


async def _frames(replica: Replica, address: Address, cursor: int) -> AsyncGenerator[bytes]:
    async with (
        replica.hub.open(address, WAIT_FORMAT) as channel,
        contextlib.aclosing(channel.frames(cursor)) as frames,
    ):
        async for frame in frames:
            yield frame


@router.get(
    "/api/wait-states/{executionId}/{correlationId}/log",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="readWaitLog",
    responses=describe_responses({200: LogView}, 404),
)
async def read_log(request: Request, address: WaitAddress, after: After = FROM_START) -> Response:
    """Read the log in pages, late events included."""
    replica = replica_of(request)
    wait_row = await read_wait(replica, address)
    page = await replica.database.query(waits.read_log, address.key, max(after, 0))
    # The end includes the result, which is read only for the page that has the end.
    has_end = includes_end(wait_row.wait, page, after)
    counted = await replica.database.query(waits.read_counted, wait_row.wait) if has_end else []

    def build() -> Response:
        items = log_documents(wait_row.wait, page, after, counted)
        return json_response(
            {"items": items, "nextAfter": page.entries[-1].seq if page.more else None}
        )

    return await offload_if_large(build, size_of([*page.entries, *counted]))


@router.get(
    "/api/wait-states/{executionId}/{correlationId}/explain",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="explainWait",
    responses=describe_responses({200: ExplainView}, 404),
)
async def explain_wait(request: Request, address: WaitAddress) -> Response:
    """Explain why a wait still waits or why it ended, and which events nearly matched."""
    replica = replica_of(request)
    wait_row = await read_wait(replica, address)
    parked = await replica.database.query(inbox.near_misses, address)
    explanation = explain(wait_row.wait, parked, replica.client.clock.now())
    return json_response(explanation_document(explanation))
