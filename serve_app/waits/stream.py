"""One wait's story: live, as a log, and in words."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.shared.address import Address
from core.waits.explain import explain
from serve_app.container import Replica
from serve_app.http.json_io import answer
from serve_app.http.openapi import described, streamed
from serve_app.http.permissions import Target, passage_of, replica_of, requires
from serve_app.streams.formats import WAIT_STORY
from serve_app.streams.hub import has_all
from serve_app.streams.sse import FROM_START, EventStream
from serve_app.waits.rendering import explanation_document, log_documents, tells_end
from serve_app.waits.wait_models import ExplainView, LogView
from serve_app.waits.waits import read_wait
from services.shared.time_slice import apart
from storage.waits import inbox, waits
from storage.waits.waits import size_of

router = APIRouter(tags=["waits"])

Seen = Annotated[int | None, Query(alias="lastEventId", ge=0, lt=2**31)]
After = Annotated[int, Query(ge=FROM_START, lt=2**31)]
SeenHeader = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**31)]

_ENTRY = {"$ref": "#/components/schemas/LogEntry"}


@router.get(
    "/api/wait-states/{executionId}/{correlationId}/stream",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="streamWait",
    response_class=Response,
    responses=streamed(
        "Server-sent events: registered, what came, ended. Each `data` is a LogEntry; the stream "
        "closes after `ended`.",
        _ENTRY,
    ),
)
async def stream_wait(
    request: Request,
    address: Target,
    last_event_id: SeenHeader = None,
    last_event_id_parameter: Seen = None,
) -> Response:
    """Follow a wait live; resumes after the last id that was seen."""
    replica = replica_of(request)
    given = last_event_id if last_event_id is not None else last_event_id_parameter
    cursor = FROM_START if given is None else given
    seen = await read_wait(replica, address)
    if has_all(cursor, seen.wait):
        return Response(status_code=204)  # what makes a browser stop coming back
    passage_of(request).linger()
    return EventStream(_frames(replica, address, cursor))


async def _frames(replica: Replica, address: Address, cursor: int) -> AsyncGenerator[bytes]:
    async with (
        replica.hub.open(address, WAIT_STORY) as channel,
        contextlib.aclosing(channel.frames(cursor)) as frames,
    ):
        async for frame in frames:
            yield frame


@router.get(
    "/api/wait-states/{executionId}/{correlationId}/log",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="readWaitLog",
    responses=described({200: LogView}, 404),
)
async def read_log(request: Request, address: Target, after: After = FROM_START) -> Response:
    """Read the log, late events included; a long one comes in pages."""
    replica = replica_of(request)
    seen = await read_wait(replica, address)
    page = await replica.database.ask(waits.read_log, address.key, max(after, 0))
    # The end repeats all that counts: read for the page that has it, and for no other.
    has_end = tells_end(seen.wait, page, after)
    counted = await replica.database.ask(waits.read_counted, seen.wait) if has_end else []

    def build() -> Response:
        items = log_documents(seen.wait, page, after, counted)
        return answer({"items": items, "nextAfter": page.entries[-1].seq if page.more else None})

    return await apart(build, size_of([*page.entries, *counted]))


@router.get(
    "/api/wait-states/{executionId}/{correlationId}/explain",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="explainWait",
    responses=described({200: ExplainView}, 404),
)
async def explain_wait(request: Request, address: Target) -> Response:
    """Tell why it still waits or ended so, and which events came near."""
    replica = replica_of(request)
    seen = await read_wait(replica, address)
    parked = await replica.database.ask(inbox.near_misses, address)
    story = explain(seen.wait, parked, replica.gateway.clock.now())
    return answer(explanation_document(story))
