"""The proxy that tests break lines with: it must break them as it says, and mend them again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.tcp_proxy import TcpProxy, tcp_proxy

SHORT = 0.3  # seconds in which nothing may come


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1024):
                writer.write(data.upper())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
def proxy(echo_port: int) -> Iterator[TcpProxy]:
    with tcp_proxy("127.0.0.1", echo_port) as running:
        yield running


class Line:
    """A connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    @contextlib.asynccontextmanager
    async def through(cls, proxy: TcpProxy) -> AsyncIterator["Line"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    async def say(self, text: bytes) -> bytes:
        self._writer.write(text)
        return await self.hear(10)

    async def hear(self, within: float) -> bytes:
        async with asyncio.timeout(within):
            return await self._reader.read(1024)

    async def hears_nothing(self) -> bool:
        try:
            return not await self.hear(SHORT)
        except TimeoutError:
            return True


async def test_it_forwards(proxy: TcpProxy) -> None:
    async with Line.through(proxy) as line:
        assert await line.say(b"a") == b"A"
        assert proxy.connections == 1
        assert proxy.forwarded == (1, 1)


async def test_a_stalled_line_gives_everything_once_it_is_mended(proxy: TcpProxy) -> None:
    async with Line.through(proxy) as line:
        proxy.stall()
        line._writer.write(b"a")
        assert await line.hears_nothing()
        async with Line.through(proxy) as later:  # accepted all the same
            assert await later.hears_nothing()
        proxy.mend()
        assert await line.hear(10) == b"A"


async def test_a_line_that_is_cut_one_way_still_carries_requests(proxy: TcpProxy) -> None:
    async with Line.through(proxy) as line:
        proxy.cut_replies()
        line._writer.write(b"a")
        assert await line.hears_nothing()
        assert proxy.forwarded == (1, 0)
        proxy.mend()
        assert await line.hear(10) == b"A"


async def test_abandoned_lines_stay_so_and_new_ones_work(proxy: TcpProxy) -> None:
    async with Line.through(proxy) as old:
        assert await old.say(b"a") == b"A"
        proxy.abandon()
        old._writer.write(b"b")
        async with Line.through(proxy) as new:
            assert await new.say(b"c") == b"C"
        assert await old.hears_nothing()
        proxy.mend()
        assert await old.hears_nothing()


async def test_a_reset_line_breaks_with_an_error(proxy: TcpProxy) -> None:
    async with Line.through(proxy) as line:
        assert await line.say(b"a") == b"A"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await line.hear(10)


async def test_a_refusing_proxy_lets_nobody_in_until_it_is_mended(proxy: TcpProxy) -> None:
    proxy.refuse()
    with contextlib.suppress(ConnectionResetError):
        async with Line.through(proxy) as line:
            assert await line.hear(10) == b""
    proxy.mend()
    async with Line.through(proxy) as line:
        assert await line.say(b"a") == b"A"


async def test_a_delay_is_for_both_ways(proxy: TcpProxy) -> None:
    proxy.delay(SHORT)
    async with Line.through(proxy) as line:
        line._writer.write(b"a")
        assert await line.hears_nothing()
        assert await line.hear(10) == b"A"
