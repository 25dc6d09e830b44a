"""A resource that answers any call at once with a few notes, and never calls back.

It reads no more of a request than where it ends, so that both sides measure themselves.
Run as `python -m bench.peers.resource PORT`.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import psutil
import uvloop

from bench.peers.process import serving
from bench.peers.raw_server import ServerConnection, serve_forever
from host.ports import free_port

NOTE = {"date": "2026-03-14T09:26:53", "doctorId": "Doctor-7", "note": "Seen, and sent home well."}
DOCUMENT = orjson.dumps({"status": "ok", "notes": [{"id": n, **NOTE} for n in range(3)]})
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(DOCUMENT),
    DOCUMENT,
)


@asynccontextmanager
async def resource_service() -> AsyncIterator[tuple[str, psutil.Process]]:
    """Where it can be called."""
    port = free_port()
    async with serving("bench.peers.resource", port) as process:
        yield f"http://127.0.0.1:{port}", process


class Resource(ServerConnection):
    """Gives the same answer to each request."""

    def handle(self, request: bytes) -> None:
        self.transport.write(ANSWER)


if __name__ == "__main__":
    uvloop.run(serve_forever(Resource, int(sys.argv[1])))
