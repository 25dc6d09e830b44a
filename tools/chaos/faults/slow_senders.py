"""Senders that begin a request and do not go on with it: a crowd of plain sockets."""

import contextlib
import selectors
import socket
import time
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

_CONNECT_WITHIN = 10.0
_PIECE = 65_536


@dataclass(slots=True)
class SlowSenders:
    """Connections of which each has sent the same beginning. Close them, or use `with`."""

    url: str
    beginning: bytes
    read_buffer: int | None = None
    """How many bytes the kernel takes for a sender that does not read; None: as it likes."""
    _sockets: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> "SlowSenders":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, count: int) -> None:
        """Open so many more and send the beginning from each."""
        for _ in range(count):
            wire = self._connect()
            self._sockets.append(wire)
            with contextlib.suppress(ConnectionError):  # refused at once: `answers` tells
                wire.sendall(self.beginning)

    def send(self, piece: bytes) -> int:
        """Send one more piece from each; how many are still listened to."""
        living = 0
        for wire in self._sockets:
            with contextlib.suppress(OSError):
                living += wire.send(piece) == len(piece)
        return living

    def answers(self, within: float) -> list[bytes | None]:
        """What each was told by then: b"" where it was hung up on, None where nothing came."""
        told: dict[socket.socket, bytes | None] = dict.fromkeys(self._sockets)
        deadline = time.monotonic() + within
        with selectors.DefaultSelector() as waiting:
            for wire in self._sockets:
                waiting.register(wire, selectors.EVENT_READ)
            while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
                for key, _ in waiting.select(left):
                    wire = cast("socket.socket", key.fileobj)
                    told[wire] = _read(wire)
                    waiting.unregister(wire)
        return list(told.values())

    def close(self) -> None:
        """Hang up."""
        for wire in self._sockets:
            wire.close()
        self._sockets.clear()

    def _connect(self) -> socket.socket:
        address = urlsplit(self.url)
        wire = socket.socket()
        if self.read_buffer is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.read_buffer)
        wire.settimeout(_CONNECT_WITHIN)
        try:
            # One that is accepted and hung up on before we look was connected all the same.
            with contextlib.suppress(ConnectionResetError):
                wire.connect((address.hostname, address.port))
        except OSError:
            wire.close()
            raise
        return wire


def unfinished_post(
    path: str, *, length: int | None, sent: bytes = b"", headers: dict[str, str] | None = None
) -> bytes:
    """The beginning of a POST: its head and the first bytes of a body of `length`, or in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    fields = {"Host": "muster", "Content-Type": "application/json", **(headers or {})}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    return "\r\n".join([*lines, framing, "", ""]).encode() + sent


def _read(wire: socket.socket) -> bytes:
    with contextlib.suppress(OSError):
        return wire.recv(_PIECE)
    return b""
