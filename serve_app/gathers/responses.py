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
from serve_app.streams.hub import DisconnectPolicy, StreamFormat, is_at_end
from serve_app.streams.sse import EventStream
from storage.waits import waits

STREAM_RESPONSES = describe_stream(
    "Server-sent events: callback, rejected, timeout, error, and at the end summary.",
    {"type": "object"},
)


@dataclass(frozen=True, slots=True)
class EndedGather:
    """A gather that has ended, and what came for each resource."""

    wait: Wait
    payloads: dict[str, bytes]


async def stream_answers(request: Request, gather_id: str, cursor: int) -> Response:
    """The stream of a gather, in the words it was asked in."""
    replica, address = replica_of(request), gather_address(request, gather_id)
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


def gather_address(request: Request, gather_id: str) -> Address:
    """The gather that is meant, within the caller's tenant; a token allows its own only."""
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
    """The frames of a stream; its reader counts as one while it lasts."""
    async with (
        replica.hub.open(address, stream_format, policy) as channel,
        contextlib.aclosing(channel.frames(cursor)) as frames,
    ):
        async for frame in frames:
            yield frame


async def begin_blocking(
    replica: Replica, tenant: int, asked: GatherSpec, timeout_ms: int
) -> StartedGather:
    """Begin a gather for a caller who waits; who does not even wait for that has left it."""
    beginning = asyncio.create_task(replica.gather_service.begin(tenant, asked, timeout_ms))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:  # how Serve tells that a client hung up
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
    """Do the work; False if the client went away before it was done, which stops it."""
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
    """Return when the client has hung up. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
