"""A TCP proxy on loopback that can stall, cut one way, delay, reset, or lead elsewhere.

It runs in a thread with a loop of its own: tests block theirs while they start a product, and the
product talks to its database through the proxy meanwhile.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

_LOOPBACK = "127.0.0.1"
_CHUNK = 65_536
_RESET = struct.pack("ii", 1, 0)
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Way:
    """One direction of all connections: open or shut, and how long its bytes take."""

    open: asyncio.Event
    delay: float = 0.0
    forwarded: int = 0


@dataclass(eq=False, slots=True)
class _Link:
    """A client's connection and ours to the server."""

    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    abandoned: bool = False

    def reset(self) -> None:
        """End both with RST: no goodbye, and what is under way is gone."""
        for writer in self.writers:
            with contextlib.suppress(OSError):
                wire = writer.get_extra_info("socket")
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class TcpProxy:
    """Forwards to one server at a time; every method may be called from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = (host, port)
        self._refusing = False
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._requests, self._replies = self._do(lambda: (_way(), _way()))
        self._server: asyncio.Server = self._await(self._listen())
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        """How many connections there are now."""
        return self._do(lambda: len(self._links))

    @property
    def forwarded(self) -> tuple[int, int]:
        """Bytes that went to the server, and back."""
        return self._requests.forwarded, self._replies.forwarded

    def lead_to(self, host: str, port: int) -> None:
        """Send new connections to another server; those there are stay where they are."""
        self._do(lambda: setattr(self, "_target", (host, port)))

    def stall(self) -> None:
        """Accept connections and forward nothing, not even that one end has hung up."""
        self.cut_requests()
        self.cut_replies()

    def cut_replies(self) -> None:
        """Let requests pass and no reply: the server works, and nobody hears of it."""
        self._do(self._replies.open.clear)

    def cut_requests(self) -> None:
        """Let replies pass and no request."""
        self._do(self._requests.open.clear)

    def abandon(self) -> None:
        """Forward nothing more, for good, on the connections there are; new ones work.

        As a firewall does that has forgotten them: neither end is told.
        """

        def abandon_all() -> None:
            for link in self._links:
                link.abandoned = True

        self._do(abandon_all)

    def delay(self, seconds: float) -> None:
        """Let every piece of data take so much longer, each way."""

        def slow_down() -> None:
            for way in self._ways():
                way.delay = seconds

        self._do(slow_down)

    def refuse(self) -> None:
        """Reset every connection, and each that is tried."""
        self._do(lambda: setattr(self, "_refusing", True))
        self.reset()

    def reset(self) -> None:
        """Reset every connection that there is."""

        def reset_all() -> None:
            for link in list(self._links):
                link.reset()

        self._do(reset_all)

    def mend(self) -> None:
        """Forward everything again, also what was held back."""

        def mend() -> None:
            self._refusing = False
            for way in self._ways():
                way.delay = 0.0
                way.open.set()

        self._do(mend)

    def close(self) -> None:
        """Reset all, stop listening, end the thread."""
        self._await(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def _ways(self) -> tuple[_Way, _Way]:
        return self._requests, self._replies

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, _LOOPBACK, 0)

    async def _shut(self) -> None:
        self._server.close()
        for link in list(self._links):
            link.reset()
        ours = asyncio.current_task()
        rest = [task for task in asyncio.all_tasks() if task is not ours]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link([writer])
        self._links.add(link)
        try:
            if self._refusing:
                return
            await self._requests.open.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            link.writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(link, reader, far_writer, self._requests))
                group.create_task(_pump(link, far_reader, writer, self._replies))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one end is gone, or all of this is over: the other end is told below
        finally:
            link.reset()
            self._links.discard(link)

    def _do(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._await(run())

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)


def _way() -> _Way:
    way = _Way(asyncio.Event())
    way.open.set()
    return way


async def _pump(
    link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: _Way
) -> None:
    """Forward until one end hangs up; while the way is shut the other end does not learn of it."""
    while data := await reader.read(_CHUNK):
        await _passage(link, way)
        writer.write(data)
        way.forwarded += len(data)
        await writer.drain()
    await _passage(link, way)
    if writer.can_write_eof():
        writer.write_eof()


async def _passage(link: _Link, way: _Way) -> None:
    if way.delay:
        await asyncio.sleep(way.delay)
    await way.open.wait()
    if link.abandoned:
        await asyncio.Event().wait()


@contextlib.contextmanager
def tcp_proxy(host: str, port: int) -> Iterator[TcpProxy]:
    """A proxy to this server for as long as the block lasts."""
    proxy = TcpProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
