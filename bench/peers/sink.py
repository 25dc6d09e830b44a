"""A server that answers anything at once: what is left is the load generator's own ceiling.

Run as `python -m bench.peers.sink PORT`.
"""

import asyncio
import sys
from typing import cast

import uvloop

ANSWER = (
    b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'
)


class Sink(asyncio.Protocol):
    """One answer for each piece of data: the generator has one request under way at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """A small request comes in one piece."""
        self._transport.write(ANSWER)


async def main() -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
