"""What a call sends and brings back, over real connections on loopback."""

import asyncio
import gzip
import threading
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from core.shared.call_outcome import CallState
from core.shared.call_policy import LOOPBACK, CallPolicy
from handlers.http.client import HttpClient, HttpResponse
from handlers.http.guarded_resolver import GuardedResolver
from tests.support.servers import (
    LARGEST,
    OK,
    Server,
    Streams,
    failed,
    replying,
    request,
    serving,
)


@pytest.fixture
async def outbound() -> AsyncIterator[HttpClient]:
    async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as opened:
        yield opened


# Answers.


async def test_a_call_arrives_as_it_was_made(outbound: HttpClient) -> None:
    async with serving(replying(OK)) as server:
        answer = await outbound.call(request(server.url))
    assert isinstance(answer, HttpResponse)
    assert (answer.status, answer.body, answer.content_type) == (200, b"{}", "application/json")
    assert 0 < answer.seconds < 5
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b'{"a":1}'
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /ask http/1.1"
    assert "x-own: 1" in lines
    assert any(line.startswith("user-agent: muster/") for line in lines)
    assert not any(line.startswith("cookie") for line in lines)


async def test_a_header_that_is_set_twice_goes_once_as_it_was_set_last(
    outbound: HttpClient,
) -> None:
    headers = {
        "Content-Type": "application/json",
        "content-type": "application/vnd.x+json",
        "USER-AGENT": "somebody",
    }
    async with serving(replying(OK)) as server:
        await outbound.call(request(server.url, headers=headers))
    lines = server.requests[0].decode().lower().split("\r\n")
    assert [line for line in lines if line.startswith(("content-type", "user-agent"))] == [
        "user-agent: somebody",
        "content-type: application/vnd.x+json",
    ]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_is_empty(outbound: HttpClient, status: str) -> None:
    async with serving(replying(f"HTTP/1.1 {status}\r\n\r\n".encode())) as server:
        answer = await outbound.call(request(server.url))
    assert isinstance(answer, HttpResponse)
    assert (answer.status, answer.body) == (int(status[:3]), b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(outbound: HttpClient, status: int) -> None:
    async with serving(replying(OK)) as inside:
        raw = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {inside.url}\r\nContent-Length: 0\r\n\r\n"
        async with serving(replying(raw.encode())) as server:
            answer = await outbound.call(request(server.url))
    assert isinstance(answer, HttpResponse)
    assert (answer.status, inside.connections) == (status, 0)


async def test_connections_are_used_again(outbound: HttpClient) -> None:
    async with serving(replying(OK)) as server:
        for _ in range(3):
            assert isinstance(await outbound.call(request(server.url)), HttpResponse)
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_a_cookie_is_not_kept(outbound: HttpClient) -> None:
    raw = OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: who=me\r\n\r\n")
    async with serving(replying(raw)) as server:
        for _ in range(2):
            await outbound.call(request(server.url))
    assert b"who=me" not in server.requests[1]


async def test_many_at_once_do_not_wait_for_each_other(outbound: HttpClient) -> None:
    together = asyncio.Barrier(20)

    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        await together.wait()
        streams[1].write(OK)
        await streams[1].drain()

    async with serving(behave) as server:
        answers = await asyncio.gather(*(outbound.call(request(server.url)) for _ in range(20)))
    assert all(isinstance(answer, HttpResponse) for answer in answers)


# Too much.


@pytest.mark.parametrize("is_declared", [True, False])
async def test_an_answer_that_is_too_large(outbound: HttpClient, is_declared: bool) -> None:
    sent = 0

    async def behave(server: Server, streams: Streams) -> None:
        nonlocal sent
        await server.take(streams[0])
        length = b"Content-Length: 1000000000\r\n" if is_declared else b"Connection: close\r\n"
        streams[1].write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n")
        for _ in range(2_000):
            streams[1].write(b"x" * 50_000)
            await streams[1].drain()
            sent += 50_000

    async with serving(behave) as server:
        answer = await failed(outbound, server.url)
        assert (answer.state, answer.detail) == (
            CallState.ERROR,
            f"the answer is larger than {LARGEST} bytes",
        )
        assert sent < 50_000_000


async def test_the_largest_answer_that_may_be_is_taken_whole(outbound: HttpClient) -> None:
    body = b"y" * LARGEST
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {LARGEST}\r\n\r\n".encode()
    async with serving(replying(head + body)) as server:
        answer = await outbound.call(request(server.url))
    assert isinstance(answer, HttpResponse)
    assert answer.body == body


async def test_an_answer_that_grows_when_it_is_unpacked(outbound: HttpClient) -> None:
    """Fifty megabytes of nothing in fifty kilobytes: no more is unpacked than is looked at."""
    bomb = gzip.compress(b"\0" * 50_000_000)
    head = (
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
        f"Content-Length: {len(bomb)}\r\nConnection: close\r\n\r\n"
    )
    async with serving(replying(head.encode() + bomb)) as server:
        tracemalloc.start()
        try:
            answer = await failed(outbound, server.url)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (answer.state, answer.detail) == (
        CallState.ERROR,
        f"the answer is larger than {LARGEST} bytes",
    )
    assert most < 10_000_000


async def test_an_answer_that_was_packed_is_unpacked(outbound: HttpClient) -> None:
    packed = gzip.compress(b'{"n":1}')
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    async with serving(replying(head.encode() + packed)) as server:
        answer = await outbound.call(request(server.url))
    assert isinstance(answer, HttpResponse)
    assert answer.body == b'{"n":1}'


async def test_the_system_is_asked_in_threads_of_our_own() -> None:
    """Whoever else uses the loop's threads does not wait for names."""
    resolver = GuardedResolver(CallPolicy(LOOPBACK))
    found = await resolver.resolve(0, "localhost")
    assert "127.0.0.1" in found
    assert any(thread.name.startswith("lookup") for thread in threading.enumerate())
    resolver.close()
