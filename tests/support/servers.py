"""Servers on loopback that play one behaviour, and calls to them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from handlers.http.client import HttpClient, HttpFailure, HttpRequest
from handlers.http.dns import ResolveHost

LARGEST = 100_000
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Server:
    """Plays one behaviour; remembers what it was sent, and by how many connections."""

    behave: Callable[["Server", Streams], Awaitable[None]]
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ask"

    async def take(self, reader: asyncio.StreamReader) -> bytes:
        """The next request, body and all."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")),
            0,
        )
        request = head + await reader.readexactly(length)
        self.requests.append(request)
        return request

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self.behave(self, (reader, writer))
        writer.close()


@contextlib.asynccontextmanager
async def serving(
    behave: Callable[[Server, Streams], Awaitable[None]],
    host: str = "127.0.0.1",
    **options: Any,
) -> AsyncIterator[Server]:
    server = Server(behave)
    listener = await asyncio.start_server(server.connected, host, options.pop("port", 0), **options)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def request(url: str, **fields: Any) -> HttpRequest:
    values = {
        "method": "POST",
        "headers": {"Content-Type": "application/json", "X-Own": "1"},
        "body": b'{"a":1}',
        "connect_timeout": 2.0,
        "read_timeout": 5.0,
    }
    return HttpRequest(url=url, **values | fields)


async def failed(outbound: HttpClient, url: str, **fields: Any) -> HttpFailure:
    answer = await outbound.call(request(url, **fields))
    assert isinstance(answer, HttpFailure)
    return answer


def scripted_lookup(names: dict[str, list[list[str]]]) -> ResolveHost:
    """A directory in which each answer is given once."""

    async def look(host: str) -> list[str]:
        return names[host].pop(0)

    return look


def replying(raw: bytes) -> Callable[[Server, Streams], Awaitable[None]]:
    """Answers each request with these bytes, and keeps the connection."""

    async def behave(server: Server, streams: Streams) -> None:
        reader, writer = streams
        while True:
            await server.take(reader)
            writer.write(raw)
            await writer.drain()

    return behave
