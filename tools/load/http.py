"""HTTP/1.1 by hand, for load generators and the servers that they measure.

It parses as little as it can, so that a load measures the other end and not itself.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

HEAD_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_NO_BODY = (204, 304)
_PIECE = 65_536
Response: TypeAlias = tuple[int, bytes, bytes]
"""Status, head in lower case, body."""


def request_head(
    method: str,
    path: str,
    *,
    host: str,
    key: str | None = None,
    length: int | None = 0,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Build the head of a JSON request; without a length its body is chunked."""
    fields = {"Host": host, "Content-Type": "application/json"}
    if key is not None:
        fields["Authorization"] = f"Bearer {key}"
    fields |= headers or {}
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    return "\r\n".join([*lines, framing, "", ""]).encode()


def build_request(
    method: str,
    path: str,
    body: bytes = b"",
    *,
    host: str,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    head = request_head(method, path, host=host, key=key, length=len(body), headers=headers)
    return head + body


def split_response(data: bytes) -> Response | None:
    """Split a response once all of it is there; it has to state its length."""
    end = data.find(HEAD_END)
    if end < 0:
        return None
    head, start = data[:end].lower(), end + len(HEAD_END)
    status, at = int(head[9:12]), head.find(_LENGTH)
    if at < 0:
        if status not in _NO_BODY:
            raise ValueError(f"a response without a length: {head!r}")
        return status, head, b""
    length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
    if len(data) < start + length:
        return None
    return status, head, data[start : start + length]


def request_length(data: bytes) -> int:
    """Return how many bytes the first request has; 0 while its head is incomplete."""
    end = data.find(HEAD_END)
    if end < 0:
        return 0
    head = data[: end + 2].lower()
    at = head.find(_LENGTH)
    length = int(head[at + len(_LENGTH) : head.index(b"\r\n", at + 2)]) if at >= 0 else 0
    return end + len(HEAD_END) + length


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> Response:
    """Send one request over an open connection and read its response."""
    writer.write(request)
    data = b""
    while (response := split_response(data)) is None:
        piece = await reader.read(_PIECE)
        if not piece:
            raise EOFError(f"the connection ended after {data!r}")
        data += piece
    return response


class ClientConnection(asyncio.Protocol):
    """A client's connection with at most one request under way, which `request` identifies."""

    transport: asyncio.Transport
    request: Any = None

    def __init__(
        self,
        on_response: "Callable[[ClientConnection, Response], None]",
        on_lost: "Callable[[ClientConnection, Exception | None], None]",
    ) -> None:
        self._on_response = on_response
        self._on_lost = on_lost
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        response = split_response(self._data)
        if response is not None:
            self._data = b""
            self._on_response(self, response)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(self, exc)


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
