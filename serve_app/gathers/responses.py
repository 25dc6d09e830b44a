"""The answers of a gather, streamed or all at once, while their reader is connected."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.responses import Response

from core.access.tokens import TOKEN_SCOPE
from core.gathers.gather import GatherMode, GatherSpec
from core.shared.address import Address
from core.shared.errors import ForbiddenError
from core.waits.output import payloads_of
from core.waits.state import Wait
from serve_app.container import Replica
from serve_app.gathers.service import StartedGather, cap_timeout, grace_of, grace_of_reader
from serve_app.gathers.stream_format import gather_format
from serve_app.http.auth import Caller
from serve_app.http.json_io import JsonResponse, wait_for_disconnect
from serve_app.http.openapi import describe_stream
from serve_app.http.permissions import request_slot_of
from serve_app.http.router import Context, unless_missing
from serve_app.http.sse import EventStream
from serve_app.streams.hub import is_at_end
from services.shared.time_slice import offload_if_large
from storage.waits import waits

STREAM_RESPONSES = describe_stream(
    "Server-sent events: callback, rejected, timeout, error, and at the end summary.",
    {"type": "object"},
)


@dataclass(frozen=True, slots=True)
class EndedGather:
    """A gather that has ended, with the payload of each resource."""

    wait: Wait
    payloads: dict[str, bytes]


async def run_gather(
    context: Context,
    spec: GatherSpec,
    timeout_ms: int,
    render_started: Callable[[StartedGather], tuple[int, bytes]],
    render_ended: Callable[[EndedGather], bytes],
) -> Response:
    """Begin a gather and answer as its mode says: at once, or when it has ended."""
    timeout_ms, headers = cap_timeout(timeout_ms)
    with context.replica.metrics.gathers.request(spec.mode):
        if spec.mode is GatherMode.STREAM:
            service = context.replica.gather_service
            status, raw = render_started(await service.begin(context.tenant, spec, timeout_ms))
            return JsonResponse(raw, status, headers)
        ended = await gather_blocking(context, spec, timeout_ms)
    if ended is None:
        return Response(status_code=499)
    size = sum(map(len, ended.payloads.values()))
    return await offload_if_large(lambda: JsonResponse(render_ended(ended), 200, headers), size)


async def stream_answers(context: Context, gather_id: str, cursor: int) -> Response:
    """Stream a gather in the format in which it was started."""
    replica, address = context.replica, gather_address(context.caller, gather_id)
    gather = await replica.gather_service.find(address)
    if is_at_end(cursor, gather.row.wait):
        return Response(status_code=204)  # makes a browser stop reconnecting
    request_slot_of(context.request).count_as_stream()
    grace = grace_of_reader(gather.asked, context.caller)
    frames = replica.hub.frames(address, gather_format(gather.asked), cursor, grace)
    return EventStream(replica.metrics.gathers.stream(frames))


async def gather_blocking(
    context: Context, spec: GatherSpec, timeout_ms: int
) -> EndedGather | None:
    """Begin a gather and wait for its end; return None if the caller disconnected.

    Raises:
        NotFoundError: The gather was deleted while the caller waited.
        UnavailableError: The end of the gather could not be read in time.
    """
    request_slot_of(context.request).count_as_stream()
    replica = context.replica
    started = await begin_blocking(replica, context.tenant, spec, timeout_ms)
    timeout_seconds = timeout_ms / 1000 + replica.config.request_timeout
    async with replica.hub.open(started.address, gather_format(spec), grace_of(spec)) as channel:
        is_connected = await run_unless_disconnected(
            context.request, channel.ended_within(timeout_seconds)
        )
        if not is_connected:
            return None
    wait = unless_missing(channel.result, f"gather {started.address.correlation_id}").wait
    counted = await replica.database.query(waits.read_counted, wait)
    return EndedGather(wait, payloads_of(wait, counted))


def gather_address(caller: Caller, gather_id: str) -> Address:
    """Return the gather's address in the caller's tenant; raise if a token is for another one."""
    address = Address(caller.tenant, gather_id, gather_id)
    if caller.address is not None and caller.address != address:
        raise ForbiddenError("this token is for another gather", TOKEN_SCOPE)
    return address


async def begin_blocking(
    replica: Replica, tenant: int, spec: GatherSpec, timeout_ms: int
) -> StartedGather:
    """Begin a gather for a caller who waits; abandon it if the caller disconnects meanwhile."""
    beginning = asyncio.create_task(replica.gather_service.begin(tenant, spec, timeout_ms))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:  # Serve cancels the task when a client disconnects
        replica.hub.follow_up(_apply_disconnect_policy(replica, beginning, spec))
        raise


async def _apply_disconnect_policy(
    replica: Replica, beginning: "asyncio.Task[StartedGather]", spec: GatherSpec
) -> None:
    await asyncio.wait({beginning})
    if beginning.exception() is None:
        address, stream_format = beginning.result().address, gather_format(spec)
        async with replica.hub.open(address, stream_format, grace_of(spec)):
            pass


async def run_unless_disconnected(request: Request, work: Coroutine[Any, Any, None]) -> bool:
    """Run `work`; if the client disconnects first, stop the work and return False."""
    doing = asyncio.create_task(work)
    leaving = asyncio.create_task(wait_for_disconnect(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        return doing.done()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)
