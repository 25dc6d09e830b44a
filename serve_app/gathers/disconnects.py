"""Answers that are held back: for as long as somebody is there to get them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from fastapi import Request

from core.gathers.gather import GatherSpec
from core.shared.address import Address
from serve_app.container import Replica
from serve_app.gathers.service import StartedGather, disconnect_policy_of
from serve_app.streams.formats import gather_format
from serve_app.streams.hub import DisconnectPolicy, StreamFormat


async def stream_frames(
    replica: Replica,
    address: Address,
    stream_format: StreamFormat,
    cursor: int,
    leaving: DisconnectPolicy | None,
) -> AsyncGenerator[bytes]:
    """The frames of a stream; its reader counts as one while it lasts."""
    async with (
        replica.hub.open(address, stream_format, leaving) as channel,
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
