"""Connections that begin a request and do not end it."""

import contextlib
import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from tools.load.http import request_head

_CONNECT_TIMEOUT = 10.0
_PIECE = 65_536


@dataclass(slots=True)
class SlowSenders:
    """Connections that have all sent the same beginning of a request. Use it with `with`."""

    url: str
    beginning: bytes
    read_buffer: int | None = None
    """The size of the kernel's read buffer; None leaves it to the kernel."""
    _sockets: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> "SlowSenders":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, count: int) -> None:
        """Open `count` more connections."""
        for _ in range(count):
            connection = self._connect()
            self._sockets.append(connection)
            with contextlib.suppress(ConnectionError):  # refused at once: see `answers`
                connection.sendall(self.beginning)

    def send(self, piece: bytes) -> int:
        """Send one more piece over each; return how many connections are still open."""
        living = 0
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                living += connection.send(piece) == len(piece)
        return living

    def answers(self, within: float) -> list[bytes | None]:
        """Return what each was answered: b"" if it was closed, None if nothing came."""
        answers: dict[socket.socket, bytes | None] = dict.fromkeys(self._sockets)
        deadline = time.monotonic() + within
        with selectors.DefaultSelector() as selector:
            for connection in self._sockets:
                selector.register(connection, selectors.EVENT_READ)
            while selector.get_map() and (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    connection = cast("socket.socket", key.fileobj)
                    answers[connection] = _read(connection)
                    selector.unregister(connection)
        return list(answers.values())

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()
        self._sockets.clear()

    def _connect(self) -> socket.socket:
        address = urlsplit(self.url)
        connection = socket.socket()
        if self.read_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.read_buffer)
        connection.settimeout(_CONNECT_TIMEOUT)
        try:
            # A connection that is accepted and closed before we look was made all the same.
            with contextlib.suppress(ConnectionResetError):
                connection.connect((address.hostname, address.port))
        except OSError:
            connection.close()
            raise
        return connection


def unfinished_post(
    path: str, *, length: int | None, sent: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """Build the head of a POST with a body of `length`, or in chunks, and the first bytes of it."""
    return request_head("POST", path, host="muster", length=length, headers=headers) + sent


def _read(connection: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return connection.recv(_PIECE)
    return b""
