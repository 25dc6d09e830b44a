"""Answers that are held back: for as long as somebody is there to get them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from fastapi import Request

from core.gathers.gather import Asked
from core.shared.address import Address
from serve_app.container import Replica
from serve_app.gathers.service import Begun, leaving_of
from serve_app.streams.formats import gather_story
from serve_app.streams.hub import Leaving, Story


async def read_on(
    replica: Replica,
    address: Address,
    story: Story,
    cursor: int,
    leaving: Leaving | None,
) -> AsyncGenerator[bytes]:
    """The frames of a stream; its reader counts as one while it lasts."""
    async with (
        replica.hub.open(address, story, leaving) as channel,
        contextlib.aclosing(channel.frames(cursor)) as frames,
    ):
        async for frame in frames:
            yield frame


async def begin_held(replica: Replica, tenant: int, asked: Asked, timeout_ms: int) -> Begun:
    """Begin a gather for a caller who waits; who does not even wait for that has left it."""
    beginning = asyncio.create_task(replica.gatherer.begin(tenant, asked, timeout_ms))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:  # how Serve tells that a client hung up
        replica.hub.follow_up(_leave(replica, beginning, asked))
        raise


async def _leave(replica: Replica, beginning: "asyncio.Task[Begun]", asked: Asked) -> None:
    await asyncio.wait({beginning})
    if beginning.exception() is None:
        address, story = beginning.result().address, gather_story(asked)
        async with replica.hub.open(address, story, leaving_of(asked)):
            pass


async def unless_gone(request: Request, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work; False if the client went away before it was done, which stops it."""
    doing = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        return doing.done()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Return when the client has hung up. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
