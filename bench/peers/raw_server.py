"""A server of HTTP/1.1 by hand, that reads no more of a request than where it ends."""

import asyncio
from typing import cast

from tools.load.http import HEAD_END, LENGTH_FIELD


def request_length(data: bytes) -> int:
    """Return how many bytes the first request has; 0 while its head is incomplete."""
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    head = data[: end + 2].lower()
    at = head.find(LENGTH_FIELD)
    length = int(head[at + len(LENGTH_FIELD) : head.index(b"\r\n", at + 2)]) if at >= 0 else 0
    return end + len(HEAD_END) + length


class ServerConnection(asyncio.Protocol):
    """A server's connection that handles each request, however it is cut into pieces."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        while 0 < (length := request_length(self._data)) <= len(self._data):
            request, self._data = self._data[:length], self._data[length:]
            self.handle(request)

    def handle(self, request: bytes) -> None:
        raise NotImplementedError


async def serve_forever(connection: type[ServerConnection], port: int) -> None:
    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", port)
    await server.serve_forever()
