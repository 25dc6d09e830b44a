"""HTTP/1.1 by hand, for load generators and clients that misbehave.

It parses as little as it can, so that a load measures the other end and not itself.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

HEAD_END = b"\r\n\r\n"
LENGTH_FIELD = b"\r\ncontent-length:"
_NO_BODY = (204, 304)
_PIECE = 65_536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by a reset, as a pulled cable does
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
    status, at = int(head[9:12]), head.find(LENGTH_FIELD)
    if at < 0:
        if status not in _NO_BODY:
            raise ValueError(f"a response without a length: {head!r}")
        return status, head, b""
    length = int(head[at + len(LENGTH_FIELD) :].split(b"\r\n", 1)[0])
    if len(data) < start + length:
        return None
    return status, head, data[start : start + length]


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


class HttpConnection:
    """A client's connection with one request under way at a time."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, unless it is connected."""
        if self._streams is None:
            host, port = str(self._address.hostname), self._address.port or 80
            self._streams = await asyncio.open_connection(host, port)
        return self._streams

    async def send(self, request: bytes) -> Response:
        """Send one request and read its response; a connection that fails is closed."""
        try:
            return await exchange(*await self.open(), request)
        except (OSError, EOFError, ValueError):
            self.close()
            raise

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


@contextlib.asynccontextmanager
async def raw_socket(
    url: str, beginning: bytes, *, source: str | None = None, read_buffer: int | None = None
) -> AsyncIterator[socket.socket]:
    """Connect, send the beginning of a request, and close by a reset at the end of the block."""
    address, loop = urlsplit(url), asyncio.get_running_loop()
    connection = socket.socket()
    try:
        connection.setblocking(False)
        if read_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, read_buffer)
        if source is not None:
            connection.bind((source, 0))
        await loop.sock_connect(connection, (str(address.hostname), address.port or 80))
        await loop.sock_sendall(connection, beginning)
        yield connection
    finally:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.close()
