"""Streams as one would write them first: Starlette's StreamingResponse and a queue for each reader.

Nothing is stored, nobody is asked for a key, and a reader that comes late has missed what was.
"""

import asyncio
from collections.abc import AsyncIterator

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

OPENING = b"retry: 1000\n\n"


class Queues:
    """`GET /stream` reads on, a POST publishes, any other GET tells how many read."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes]] = set()
        self._published = 0

    async def __call__(self, request: Request) -> Response:
        """Handle one request."""
        if request.method == "POST":
            self._publish(await request.body())
        elif request.url.path == "/stream":
            return StreamingResponse(self._read(), media_type="text/event-stream")
        told = orjson.dumps({"readers": len(self._queues)})
        return Response(told, media_type="application/json")

    def _publish(self, document: bytes) -> None:
        self._published += 1
        frame = b"id: %d\nevent: callback\ndata: %s\n\n" % (self._published, document)
        for queue in self._queues:
            queue.put_nowait(frame)

    async def _read(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield OPENING
            while True:
                yield await queue.get()
        finally:
            self._queues.discard(queue)
