"""The readers of the stream benchmark see what is wrong with a stream: here the server is ours."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bench.audience import OPENING, Plan, Show, mark
from tools.load.http import HEAD_END

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone"
READERS, PUBLISHES = 7, 3

# What one reader is sent for a publish: its place among the readers, and the publish's number.
Frames = Callable[[int, int], bytes]


def frame(number: int) -> bytes:
    return b"id: 1\nevent: callback\ndata: {%s}\n\n" % mark(number)


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


@asynccontextmanager
async def server_of(frames: Frames, *, cut: bool = False) -> AsyncIterator[int]:
    """Streams on GET; each POST publishes the next number."""
    streams: list[asyncio.StreamWriter] = []
    published = 0

    async def publish() -> None:
        nonlocal published
        for place, stream in enumerate(streams):
            data = chunk(frames(place, published))
            if cut:  # in the middle of what is looked for
                stream.write(data[:40])
                await stream.drain()
                await asyncio.sleep(0.01)
                data = data[40:]
            stream.write(data)
        published += 1

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(HEAD_END)
            except asyncio.IncompleteReadError:
                writer.close()
                return
            if head.startswith(b"GET"):
                streams.append(writer)
                writer.write(HEAD + chunk(OPENING))
            else:
                await publish()
                writer.write(ANSWER)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for stream in streams:
            stream.close()


def plan_for(port: int, publishes: int = PUBLISHES, within: float = 20.0) -> Plan:
    return Plan(
        port=port,
        readers=READERS,
        read=b"GET /stream HTTP/1.1\r\n\r\n",
        publishes=[b"POST /publish HTTP/1.1\r\n\r\n"] * publishes,
        expect=b"done",
        within=within,
        serving=os.getpid(),
        busy=[os.getpid()],
    )


@pytest.mark.parametrize("cut", [False, True])
async def test_each_publish_is_timed_until_the_last_reader_has_it(*, cut: bool) -> None:
    async with server_of(lambda _, number: frame(number), cut=cut) as port:
        report = await Show(plan_for(port))()
    assert len(report.latencies) == PUBLISHES
    assert report.memory > 0
    assert report.frame == pytest.approx(len(chunk(frame(0))))
    if cut:  # each reader makes the last one wait
        assert min(report.latencies) >= READERS * 0.01


async def test_when_time_is_over_nothing_more_is_published() -> None:
    async with server_of(lambda _, number: frame(number)) as port:
        report = await Show(plan_for(port, within=0.0))()
    assert report.latencies == []


async def test_a_frame_that_one_reader_gets_twice_fails_the_run() -> None:
    async with server_of(lambda place, n: frame(n) * (2 if place == 3 else 1)) as port:
        with pytest.raises(AssertionError, match=r"1 readers .* \[0, 0, 1, 1, 2, 2\]"):
            await Show(plan_for(port))()


async def test_a_frame_of_an_earlier_publish_fails_the_run() -> None:
    def late(place: int, number: int) -> bytes:
        again = frame(number - 1) if place == 3 and number == 2 else b""
        return frame(number) + again

    async with server_of(late) as port:
        with pytest.raises(AssertionError, match=r"1 readers .* \[0, 1, 2, 1\]"):
            await Show(plan_for(port))()


async def test_a_stream_that_is_refused_fails_the_run() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(HEAD_END)
        writer.write(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ConnectionError, match="429"):
            await Show(plan_for(server.sockets[0].getsockname()[1]))()


async def test_a_reader_that_gets_nothing_keeps_the_run_from_ending() -> None:
    async with server_of(lambda place, n: frame(n) if place else b": beat\n\n") as port:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Show(plan_for(port))(), timeout=0.5)
