"""A connection without a network: what comes back, a test decides, in any pieces."""

import asyncio
from typing import Any

from handlers.http.connection import Connection, RawResponse

KEY = ("http", "a.example", 80)
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
    b"2;note=1\r\nhe\r\n3\r\nllo\r\n0\r\nX-Trailer: t\r\n\r\n"
)


class FakeTransport(asyncio.Transport):
    """Takes what is written, and ends when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent = 0
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unsent


def connected() -> tuple[Connection, FakeTransport]:
    """A connection, and the wire that it writes to."""
    connection, wire = Connection(KEY, lambda _: None), FakeTransport()
    connection.connection_made(wire)
    return connection, wire


async def reply_to_pieces(
    connection: Connection, pieces: list[bytes], *, most: int = 1_000, ends: bool = False
) -> RawResponse:
    """What a request brings if these pieces come back, and then perhaps the end."""
    asking = asyncio.ensure_future(connection.send_request(b"GET", most, 5.0))
    await asyncio.sleep(0)
    for piece in pieces:
        if connection.is_open:
            connection.data_received(piece)
    if ends:
        connection.connection_lost(None)
    return await asking


def bytes_of(raw: bytes) -> list[bytes]:
    """Each byte as a piece of its own."""
    return [raw[at : at + 1] for at in range(len(raw))]
