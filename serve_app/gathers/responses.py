"""The answers of a gather, streamed or all at once, while their reader is connected."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.responses import Response

from core.access.tokens import TOKEN_SCOPE
from core.gathers.gather import GatherSpec
from core.shared.address import Address
from core.shared.errors import ForbiddenError, NotFoundError
from core.waits.output import payloads_of
from core.waits.state import Wait
from serve_app.container import Replica
from serve_app.gathers.service import (
    StartedGather,
    disconnect_policy_of,
    disconnect_policy_of_reader,
)
from serve_app.gathers.stream_format import gather_format
from serve_app.http.openapi import describe_stream
from serve_app.http.permissions import caller_of, replica_of, request_slot_of
from serve_app.http.sse import EventStream
from serve_app.streams.hub import DisconnectPolicy, StreamFormat, is_at_end
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


async def stream_answers(request: Request, gather_id: str, cursor: int) -> Response:
    """Stream a gather in the format in which it was started."""
    replica, address = replica_of(request), gather_address(request, gather_id)
    gathering = await replica.gather_service.find(address)
    if is_at_end(cursor, gathering.row.wait):
        return Response(status_code=204)  # makes a browser stop reconnecting
    request_slot_of(request).count_as_stream()
    stream_format = gather_format(gathering.asked)
    policy = disconnect_policy_of_reader(gathering.asked, caller_of(request))
    frames = stream_frames(replica, address, stream_format, cursor, policy)
    return EventStream(replica.metrics.gathers.stream(frames))


async def gather_blocking(
    request: Request, tenant: int, asked: GatherSpec, timeout_ms: int
) -> EndedGather | None:
    """Begin a gather and wait for its end; return None if the caller disconnected.

    Raises:
        NotFoundError: The gather was deleted while the caller waited.
        UnavailableError: The end of the gather could not be read in time.
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


def gather_address(request: Request, gather_id: str) -> Address:
    """Return the gather's address in the caller's tenant; raise if a token is for another one."""
    caller = caller_of(request)
    address = Address(caller.tenant, gather_id, gather_id)
    if caller.address is not None and caller.address != address:
        raise ForbiddenError("this token is for another gather", TOKEN_SCOPE)
    return address


async def stream_frames(
    replica: Replica,
    address: Address,
    stream_format: StreamFormat,
    cursor: int,
    policy: DisconnectPolicy | None,
) -> AsyncGenerator[bytes]:
    """Yield the frames of a gather; the caller counts as a reader until it stops reading."""
    async with (
        replica.hub.open(address, stream_format, policy) as channel,
        contextlib.aclosing(channel.frames(cursor)) as frames,
    ):
        async for frame in frames:
            yield frame


async def begin_blocking(
    replica: Replica, tenant: int, asked: GatherSpec, timeout_ms: int
) -> StartedGather:
    """Begin a gather for a caller who waits; abandon it if the caller disconnects meanwhile."""
    beginning = asyncio.create_task(replica.gather_service.begin(tenant, asked, timeout_ms))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:  # Serve cancels the task when a client disconnects
        replica.hub.follow_up(_apply_disconnect_policy(replica, beginning, asked))
        raise


async def _apply_disconnect_policy(
    replica: Replica, beginning: "asyncio.Task[StartedGather]", asked: GatherSpec
) -> None:
    await asyncio.wait({beginning})
    if beginning.exception() is None:
        address, stream_format = beginning.result().address, gather_format(asked)
        async with replica.hub.open(address, stream_format, disconnect_policy_of(asked)):
            pass


async def run_unless_disconnected(request: Request, work: Coroutine[Any, Any, None]) -> bool:
    """Run `work`; if the client disconnects first, stop the work and return False."""
    doing = asyncio.create_task(work)
    leaving = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        return doing.done()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
