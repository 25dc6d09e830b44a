"""A name server on loopback, and how to ask it as the system does: by UDP, one thread for a name.

It answers names under `QUICK` at once, with 127.0.0.1, and says nothing to any other.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import cast

QUICK, SILENT = "quick.test", "silent.test"
PATIENCE = 5.0
"""Seconds until a name is given up that nothing is said about; the system's usual."""
_HEADER = struct.Struct(">6H")
_QUESTION = struct.pack(">2H", 1, 1)  # an address, in the Internet
_ADDRESS = b"\xc0\x0c" + struct.pack(">2HIH", 1, 1, 60, 4) + socket.inet_aton("127.0.0.1")


class _NameServer(asyncio.DatagramProtocol):
    """Answers, or not."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        name = _name_in(data)
        self.asked.append(name)
        if name.endswith(QUICK) and self._transport is not None:
            number = _HEADER.unpack_from(data)[0]
            head = _HEADER.pack(number, 0x8180, 1, 1, 0, 0)
            self._transport.sendto(head + data[_HEADER.size :] + _ADDRESS, addr)


class LoopbackResolver:
    """Asks a name server of this machine."""

    def __init__(self, port: int, server: _NameServer) -> None:
        self._port = port
        self._server = server

    @property
    def asked(self) -> list[str]:
        """The names that were asked for, each as often as it was."""
        return self._server.asked

    def addresses(self, host: str) -> list[str]:
        """As `getaddrinfo`: blocks its thread until there is an answer, or none came in time."""
        labels = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
        question = _HEADER.pack(1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + _QUESTION
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
            wire.settimeout(PATIENCE)
            wire.sendto(question, ("127.0.0.1", self._port))
            try:
                found = wire.recv(512)
            except TimeoutError:
                raise socket.gaierror(socket.EAI_AGAIN, "no name server answers") from None
        return [socket.inet_ntoa(found[-4:])]


@contextlib.asynccontextmanager
async def loopback_resolver() -> AsyncIterator[LoopbackResolver]:
    """A resolver with its name server."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        _NameServer, local_addr=("127.0.0.1", 0)
    )
    try:
        yield LoopbackResolver(transport.get_extra_info("sockname")[1], server)
    finally:
        transport.close()


def _name_in(query: bytes) -> str:
    parts, at = [], _HEADER.size
    while query[at]:
        parts.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(parts)
