"""A resource that answers any call at once with a few notes, and never calls back.

It reads no more of a request than where it ends, so that both sides measure themselves.
Run as `python -m bench.peers.resource PORT`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import orjson
import psutil
import uvloop

from bench.peers.process import serving
from host.ports import free_port

NOTE = {"date": "2026-03-14T09:26:53", "doctorId": "Doctor-7", "note": "Seen, and sent home well."}
DOCUMENT = orjson.dumps({"status": "ok", "notes": [{"id": n, **NOTE} for n in range(3)]})
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(DOCUMENT),
    DOCUMENT,
)
HEAD_END = b"\r\n\r\n"
LENGTH = b"\r\ncontent-length:"


@asynccontextmanager
async def resource_service() -> AsyncIterator[tuple[str, psutil.Process]]:
    """Where it can be called."""
    port = free_port()
    async with serving("bench.peers.resource", port) as process:
        yield f"http://127.0.0.1:{port}", process


def request_length(data: bytes) -> int:
    """How many bytes the first request has; 0 while its head is not whole."""
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    head = data[: end + 2].lower()
    at = head.find(LENGTH)
    length = int(head[at + len(LENGTH) : head.index(b"\r\n", at + 2)]) if at >= 0 else 0
    return end + len(HEAD_END) + length


class Resource(asyncio.Protocol):
    """One answer for each request, however it is cut in pieces."""

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer what is whole."""
        self._data = self._data + data if self._data else data
        while 0 < (length := request_length(self._data)) <= len(self._data):
            self._data = self._data[length:]
            self._transport.write(ANSWER)


async def main() -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Resource, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
