"""Gathers: ask several resources at once, and stream their answers or wait for them all."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from actors.runtime.actor import mint
from core.access.permissions import Permission
from core.access.tokens import STREAM
from core.gathers.gather import Asked, Mode
from core.shared.address import Address
from core.shared.errors import ForbiddenError, NotFoundError
from core.shared.timestamps import moment
from core.waits.messages import Cancel
from core.waits.state import Wait
from serve_app.container import Replica
from serve_app.gathers.disconnects import begin_held, read_on, unless_gone
from serve_app.gathers.models import GatherBegun, GatherRequest, GatherView
from serve_app.gathers.rendering import gather_document
from serve_app.gathers.service import (
    Begun,
    Gathering,
    capped,
    leaving_of,
    leaving_of_reader,
    trace_of,
)
from serve_app.http.auth import TOKEN_SCOPE
from serve_app.http.headers import headers_of
from serve_app.http.json_io import answer, parse_as, read_body
from serve_app.http.openapi import body, described, streamed
from serve_app.http.permissions import (
    caller_of,
    passage_of,
    replica_of,
    requires,
    requires_or_token,
)
from serve_app.streams.formats import gather_story
from serve_app.streams.hub import has_all
from serve_app.streams.sse import FROM_START, EventStream
from serve_app.waits.rendering import Document, payloads_of
from serve_app.waits.replies import check_cancelled
from services.shared.time_slice import apart
from storage.waits import waits

router = APIRouter(prefix="/api/gathers", tags=["gathers"])

GatherId = Annotated[str, Path(alias="id", pattern=r"^[0-9A-Za-z-]{1,64}$")]
LastSeen = Annotated[int | None, Query(alias="lastEventId", ge=0, lt=2**31)]
ANSWERS = streamed(
    "Server-sent events: callback, rejected, timeout, error, and at the end summary.",
    {"type": "object"},
)
LastSeenHeader = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**31)]


@dataclass(frozen=True, slots=True)
class End:
    """A gather that has ended, and what came for each resource."""

    wait: Wait
    payloads: dict[str, bytes]


@router.post(
    "",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="beginGather",
    status_code=202,
    responses=described({202: GatherBegun, 200: GatherView}),
    openapi_extra=body(GatherRequest),
)
async def begin_gather(request: Request) -> Response:
    """Ask all resources at once; mode `wait` answers when each has, or when time is over."""
    replica = replica_of(request)
    wish = parse_as(GatherRequest, await read_body(request, replica.config.request_timeout))
    timeout_ms, headers = capped(wish.timeout_ms)
    asked = wish.to_asked(trace_of(headers_of(request).get("traceparent")))
    with replica.metrics.gathers.request(asked.mode):
        tenant = caller_of(request).tenant
        if wish.mode is Mode.STREAM:
            begun = await replica.gatherer.begin(tenant, asked, timeout_ms)
            names = [ask.name for ask in asked.asks]
            document = _begun(replica, begun, names, timeout_ms)
            return answer(document, 202, headers)
        end = await gather_held(request, tenant, asked, timeout_ms)
    if end is None:
        return Response(status_code=499)
    size = sum(map(len, end.payloads.values()))
    return await apart(
        lambda: answer(gather_document(end.wait, asked, end.payloads), 200, headers), size
    )


@router.get(
    "/{id}",
    dependencies=[requires(Permission.GATHERS_READ)],
    operation_id="showGather",
    responses=described({200: GatherView}, 404),
)
async def show_gather(request: Request, gather_id: GatherId) -> Response:
    """Show how a gather and each of its resources stand."""
    replica = replica_of(request)
    gathering = await replica.gatherer.find(_address(request, gather_id))
    return await _view(replica, gathering)


@router.get(
    "/{id}/stream",
    dependencies=[requires_or_token(Permission.GATHERS_READ, STREAM)],
    operation_id="streamGather",
    response_class=Response,
    responses=ANSWERS,
)
async def stream_gather(
    request: Request,
    gather_id: GatherId,
    last_event_id: LastSeenHeader = None,
    last_event_id_parameter: LastSeen = None,
) -> Response:
    """Follow a gather; from its beginning, or after the last id that was seen."""
    given = last_event_id if last_event_id is not None else last_event_id_parameter
    return await stream_answers(request, gather_id, FROM_START if given is None else given)


@router.delete(
    "/{id}",
    dependencies=[requires(Permission.GATHERS_WRITE)],
    operation_id="cancelGather",
    responses=described({200: GatherView}, 404, 409),
)
async def cancel_gather(request: Request, gather_id: GatherId) -> Response:
    """Cancel a gather that has not ended; calls under way are broken off."""
    replica, address = replica_of(request), _address(request, gather_id)
    await replica.gatherer.find(address)
    check_cancelled(await replica.gateway.send(Cancel(address=address, turn_id=mint())))
    return await _view(replica, await replica.gatherer.find(address))


async def stream_answers(request: Request, gather_id: str, cursor: int) -> Response:
    """The stream of a gather, in the words it was asked in."""
    replica, address = replica_of(request), _address(request, gather_id)
    gathering = await replica.gatherer.find(address)
    if has_all(cursor, gathering.seen.wait):
        return Response(status_code=204)  # what makes a browser stop coming back
    passage_of(request).linger()
    story = gather_story(gathering.asked)
    leaving = leaving_of_reader(gathering.asked, caller_of(request))
    frames = read_on(replica, address, story, cursor, leaving)
    return EventStream(replica.metrics.gathers.stream(frames))


async def gather_held(request: Request, tenant: int, asked: Asked, timeout_ms: int) -> End | None:
    """Begin a gather and wait for its end; None if the caller went away.

    Raises:
        NotFoundError: It was forgotten while it was waited for.
        UnavailableError: Its end could not be read in time.
    """
    passage_of(request).linger()
    replica = replica_of(request)
    begun = await begin_held(replica, tenant, asked, timeout_ms)
    patience = timeout_ms / 1000 + replica.config.request_timeout
    async with replica.hub.open(begun.address, gather_story(asked), leaving_of(asked)) as channel:
        if not await unless_gone(request, channel.ended_within(patience)):
            return None
    if channel.result is None:
        raise NotFoundError(f"gather {begun.address.correlation_id}")
    wait = channel.result.wait
    counted = await replica.database.ask(waits.read_counted, wait)
    return End(wait, payloads_of(wait, counted))


def _address(request: Request, gather_id: str) -> Address:
    """The gather that is meant, within the caller's tenant; a token allows its own only."""
    caller = caller_of(request)
    address = Address(caller.tenant, gather_id, gather_id)
    if caller.address is not None and caller.address != address:
        raise ForbiddenError("this token is for another gather", TOKEN_SCOPE)
    return address


async def _view(replica: Replica, gathering: Gathering) -> Response:
    wait = gathering.seen.wait
    counted = await replica.database.ask(waits.read_counted, wait)
    return await apart(
        lambda: answer(gather_document(wait, gathering.asked, payloads_of(wait, counted))),
        waits.size_of(counted),
    )


def _begun(replica: Replica, begun: Begun, names: list[str], timeout_ms: int) -> Document:
    gather_id = begun.address.correlation_id
    url = f"{replica.config.public_url}/api/gathers/{gather_id}"
    return {
        "id": gather_id,
        "correlationId": gather_id,
        "status": begun.opened.status,
        "accepted": begun.agreed,
        "resources": names,
        "timeoutMs": timeout_ms,
        "expiresAt": moment(begun.opened.expires_at),
        "url": url,
        "streamUrl": f"{url}/stream?token={begun.stream_token}",
    }
