"""Fault: requests that never end, with bodies and headers that stop or come byte by byte.

They come from other loopback addresses than all other clients, as those of strangers would.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tools.chaos.fault import Disruption, Fault, FaultRun
from tools.chaos.faults.bystander import bystander, check_bystander, sample_service
from tools.chaos.faults.memory import MEGABYTE, watch_memory
from tools.chaos.scenario import SERVICE
from tools.load.http import HEAD_END, request_head
from tools.load.sockets import background, raw_socket

DECLARED_BYTES = 1_000_000
MAX_MEMORY_GROWTH = 128 * MEGABYTE
_SETTLE = 1.0  # seconds in which all of them arrive
_EVERY = 0.5  # seconds from one byte to the next
_AGAIN = 0.2  # seconds until a client that was disconnected comes back
_SOURCES = 100  # addresses 127.0.1.1 and on


async def slow_bodies(scene: FaultRun) -> None:
    """Crowd the instance with unfinished requests, and measure a bystander's latency."""
    before = await sample_service(scene.client, scene.seconds / 3)
    async with watch_memory(scene.local.run_dir) as memory:
        async with slow_clients(scene.local.url, scene.local.key, scene.times) as clients:
            scene.note(Disruption(f"{scene.times} requests that do not end", scene.elapsed))
            await asyncio.sleep(_SETTLE)
            async with bystander(scene.client) as during:
                await asyncio.sleep(scene.seconds)
        scene.note(
            Disruption(f"they are gone; {clients.ended:,} were disconnected before", scene.elapsed)
        )
    check_bystander(scene, during, before)
    scene.check("memory is bounded", *memory.within(MAX_MEMORY_GROWTH))


@dataclass(slots=True)
class SlowClients:
    """Clients that begin a request and do not end it; one that is disconnected begins anew."""

    url: str
    key: str
    ended: int = 0
    _sources: "itertools.cycle[int]" = field(
        default_factory=lambda: itertools.cycle(range(1, _SOURCES + 1))
    )

    async def stops_in_the_body(self) -> None:
        """Stop in the body without a key, as anybody can who reaches the address."""
        await self._hold(self._head() + b"{")

    async def stops_in_the_body_with_a_key(self) -> None:
        await self._hold(self._head(self.key) + b"{")

    async def drips_a_body(self) -> None:
        await self._drip(self._head(self.key) + b"{", b" ")

    async def drips_headers(self) -> None:
        await self._drip(self._head().removesuffix(HEAD_END) + b"\r\nX-Long: ", b"x")

    async def _hold(self, beginning: bytes) -> None:
        async with raw_socket(self.url, beginning, source=self._source()) as connection:
            await _until_closed(connection)

    async def _drip(self, beginning: bytes, drop: bytes) -> None:
        loop = asyncio.get_running_loop()
        async with (
            raw_socket(self.url, beginning, source=self._source()) as connection,
            background([_until_closed(connection)]) as (closed,),
        ):
            while not closed.done():
                await asyncio.sleep(_EVERY)
                await loop.sock_sendall(connection, drop)

    def _source(self) -> str:
        return f"127.0.1.{next(self._sources)}"

    def _head(self, key: str | None = None) -> bytes:
        return request_head(
            "POST",
            f"/api/internal/callbacks/{SERVICE}",
            host=urlsplit(self.url).netloc,
            key=key,
            length=DECLARED_BYTES,
            headers={"X-Execution-Id": "slow", "X-Correlation-Id": "slow"},
        )


SlowBehaviour = Callable[[SlowClients], Awaitable[None]]
SLOW_BEHAVIOURS: tuple[SlowBehaviour, ...] = (
    SlowClients.stops_in_the_body,
    SlowClients.stops_in_the_body_with_a_key,
    SlowClients.drips_a_body,
    SlowClients.drips_headers,
)


@contextlib.asynccontextmanager
async def slow_clients(
    url: str, key: str, count: int, kinds: tuple[SlowBehaviour, ...] = SLOW_BEHAVIOURS
) -> AsyncIterator[SlowClients]:
    """Run `count` slow clients, of these kinds in turn, for as long as the block lasts."""
    clients = SlowClients(url, key)

    async def repeat(kind: SlowBehaviour) -> None:
        while True:
            with contextlib.suppress(OSError):
                await kind(clients)
            clients.ended += 1
            await asyncio.sleep(_AGAIN)

    chosen = itertools.islice(itertools.cycle(kinds), count)
    async with background(repeat(kind) for kind in chosen):
        yield clients


async def _until_closed(connection: socket.socket) -> None:
    """Read and ignore answers until the server closes the connection."""
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(connection, 65_536):
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
