"""Requests that never come to their end: bodies and headers that stop, or come byte by byte.

They come from other addresses of loopback than everybody else, as those of strangers would.
"""

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tools.chaos.fault import Disruption, Fault, FaultRun, LocalInstance
from tools.chaos.faults.bystander import bystander, check_bystander, sample_service
from tools.chaos.faults.memory import MEGABYTE, watch_memory
from tools.chaos.scenario import SERVICE

DECLARED_BYTES = 1_000_000
"""Bytes that each of them announces."""
MAX_MEMORY_GROWTH = 128 * MEGABYTE
_SETTLE = 1.0  # seconds in which they all arrive
_EVERY = 0.5  # seconds from one byte to the next
_AGAIN = 0.2  # seconds until one that was shut out comes back
_SOURCES = 100  # addresses 127.0.1.1 and on
_HANG_UP = struct.pack("ii", 1, 0)


async def slow_bodies(scene: FaultRun) -> None:
    """Crowd the front door with unfinished requests, and watch what others feel."""
    before = await sample_service(scene.client, scene.seconds / 3)
    async with watch_memory(scene.local.run_dir) as memory:
        async with slow_clients(scene.local, scene.times) as crowd:
            scene.note(Disruption(f"{scene.times} requests that do not end", scene.elapsed))
            await asyncio.sleep(_SETTLE)
            async with bystander(scene.client) as during:
                await asyncio.sleep(scene.seconds)
        scene.note(Disruption(f"they are gone; {crowd.ended:,} had been shut out", scene.elapsed))
    check_bystander(scene, during, before)
    scene.check("memory is bounded", *memory.within(MAX_MEMORY_GROWTH))


@dataclass(slots=True)
class SlowClients:
    """Clients that begin a request and do not end it; one that is shut out begins anew."""

    local: LocalInstance
    ended: int = 0
    _sockets: set[socket.socket] = field(default_factory=set)
    _sources: "itertools.cycle[int]" = field(
        default_factory=lambda: itertools.cycle(range(1, _SOURCES + 1))
    )

    async def stops_in_the_body(self) -> None:
        """No key: whoever can reach the address can do this."""
        await self._hold(self._head() + b"{")

    async def stops_in_the_body_with_a_key(self) -> None:
        """With a key, so that the request gets further in."""
        await self._hold(self._head(self.local.key) + b"{")

    async def drips_a_body(self) -> None:
        """A byte now and then, with a key."""
        await self._drip(self._head(self.local.key) + b"{", b" ")

    async def drips_headers(self) -> None:
        """Headers that never end."""
        head = self._head().removesuffix(b"\r\n\r\n")
        await self._drip(head + b"\r\nX-Long: ", b"x")

    def close(self) -> None:
        """All of them are gone."""
        for wire in list(self._sockets):
            self._drop(wire)

    async def _hold(self, begun: bytes) -> None:
        async with self._wire(begun) as wire:
            await _until_closed(wire)

    async def _drip(self, begun: bytes, drop: bytes) -> None:
        loop = asyncio.get_running_loop()
        async with self._wire(begun) as wire:
            closed = asyncio.ensure_future(_until_closed(wire))
            try:
                while not closed.done():
                    await asyncio.sleep(_EVERY)
                    await loop.sock_sendall(wire, drop)
            finally:
                closed.cancel()
                await asyncio.gather(closed, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _wire(self, begun: bytes) -> AsyncIterator[socket.socket]:
        address = urlsplit(self.local.url)
        loop = asyncio.get_running_loop()
        wire = socket.socket()
        self._sockets.add(wire)
        try:
            wire.setblocking(False)
            wire.bind((f"127.0.1.{next(self._sources)}", 0))
            await loop.sock_connect(wire, (str(address.hostname), address.port or 80))
            await loop.sock_sendall(wire, begun)
            yield wire
        finally:
            self._drop(wire)

    def _head(self, key: str | None = None) -> bytes:
        lines = [
            f"POST /api/internal/callbacks/{SERVICE} HTTP/1.1",
            f"Host: {urlsplit(self.local.url).netloc}",
            "Content-Type: application/json",
            f"Content-Length: {DECLARED_BYTES}",
            "X-Execution-Id: slow",
            "X-Correlation-Id: slow",
            *([f"Authorization: Bearer {key}"] if key else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    def _drop(self, wire: socket.socket) -> None:
        if wire in self._sockets:
            self._sockets.discard(wire)
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP)
            wire.close()


SlowBehaviour = Callable[[SlowClients], Awaitable[None]]
SLOW_BEHAVIOURS: tuple[SlowBehaviour, ...] = (
    SlowClients.stops_in_the_body,
    SlowClients.stops_in_the_body_with_a_key,
    SlowClients.drips_a_body,
    SlowClients.drips_headers,
)


@contextlib.asynccontextmanager
async def slow_clients(
    local: LocalInstance, count: int, kinds: tuple[SlowBehaviour, ...] = SLOW_BEHAVIOURS
) -> AsyncIterator[SlowClients]:
    """So many slow clients, of these kinds in turn, for as long as the block lasts."""
    crowd = SlowClients(local)

    async def insist(kind: SlowBehaviour) -> None:
        while True:
            with contextlib.suppress(OSError):
                await kind(crowd)
            crowd.ended += 1
            await asyncio.sleep(_AGAIN)

    chosen = itertools.islice(itertools.cycle(kinds), count)
    tasks = [asyncio.ensure_future(insist(kind)) for kind in chosen]
    try:
        yield crowd
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        crowd.close()


async def _until_closed(wire: socket.socket) -> None:
    """Read answers until the other end hangs up."""
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(wire, 65_536):
        pass


SLOW_BODIES = (
    Fault(
        name="slow-bodies",
        summary="Unfinished requests, with and without a key: others are served as before.",
        inject=slow_bodies,
        times=400,
        seconds=20.0,
    ),
)
