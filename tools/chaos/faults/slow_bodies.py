"""Fault: requests that never end, with bodies and headers that stop or come byte by byte.

They come from other loopback addresses than all other clients, as those of strangers would.
"""

import asyncio
import contextlib
import functools
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tools.chaos.fault import FaultRun, fault
from tools.chaos.faults.processes import MEGABYTE, bounded_memory
from tools.chaos.latency import check_bystander, sample
from tools.chaos.probe import register_new
from tools.chaos.requests import CALLBACK_PATH, event_headers
from tools.load.http import HEAD_END, raw_socket, request_head
from tools.load.tasks import background

DECLARED_BYTES = 1_000_000
MAX_MEMORY_GROWTH = 128 * MEGABYTE
_SETTLE = 1.0  # seconds in which all of them arrive
_EVERY = 0.5  # seconds from one byte to the next
_AGAIN = 0.2  # seconds until a client that was disconnected comes back
_SOURCES = 100  # addresses 127.0.1.1 and on


@fault(
    "slow-bodies",
    "Unfinished requests, with and without a key: others are served as before.",
    times=400,
)
async def slow_bodies(run: FaultRun) -> None:
    """Crowd the instance with unfinished requests, and measure a bystander's latency."""
    register = functools.partial(register_new, run.client)
    before = await sample(register, run.seconds / 3)
    async with bounded_memory(run, MAX_MEMORY_GROWTH):
        async with slow_clients(run.local.url, run.local.key, run.times) as clients:
            run.note(f"{run.times} requests that do not end")
            await asyncio.sleep(_SETTLE)
            during = await sample(register, run.seconds)
        run.note(f"they are gone; {clients.ended:,} were disconnected before")
    check_bystander(run, during, before)


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
            background(_until_closed(connection)) as (closed,),
        ):
            while not closed.done():
                await asyncio.sleep(_EVERY)
                await loop.sock_sendall(connection, drop)

    def _source(self) -> str:
        return f"127.0.1.{next(self._sources)}"

    def _head(self, key: str | None = None) -> bytes:
        return request_head(
            "POST",
            CALLBACK_PATH,
            host=urlsplit(self.url).netloc,
            key=key,
            length=DECLARED_BYTES,
            headers=event_headers(("slow", "slow")),
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
    async with background(*map(repeat, chosen)):
        yield clients


async def _until_closed(connection: socket.socket) -> None:
    """Read and ignore answers until the server closes the connection."""
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(connection, 65_536):
        pass
