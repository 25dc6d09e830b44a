"""Calls to servers that misbehave in every way one can on loopback."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.shared.call_outcome import CallState
from core.shared.call_policy import LOOPBACK, CallPolicy
from handlers.http.client import HttpClient, HttpResponse
from tests.support.secured_kafka import issue_certificates
from tests.support.servers import (
    LARGEST,
    OK,
    Server,
    Streams,
    failed,
    replying,
    request,
    scripted_lookup,
    serving,
)


@pytest.fixture
async def outbound() -> AsyncIterator[HttpClient]:
    async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as opened:
        yield opened


# No connection.


async def test_a_refused_connection(outbound: HttpClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        answer = await failed(outbound, url)
    assert answer.state is CallState.CONNECTION_CLOSED
    assert answer.detail == f"127.0.0.1:{url[17:-1]} refused the connection"


async def test_a_connection_that_is_never_taken(outbound: HttpClient) -> None:
    """A full queue of connections: the system answers nothing at all."""
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        answer = await failed(outbound, f"http://127.0.0.1:{port}/", connect_timeout=0.3)
    assert (answer.state, answer.detail) == (CallState.TIMEOUT, "no connection within 0.3 s")
    assert 0.25 < answer.seconds < 3


async def test_a_name_goes_where_it_was_checked_to_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second look leads elsewhere, and there is none between the check and the connection."""
    monkeypatch.setattr("handlers.http.guarded_resolver.CACHE_SECONDS", 0.0)
    names = {"turns.example": [["127.0.0.2", "127.0.0.1"], ["127.0.0.2"]]}
    allowed = CallPolicy(["127.0.0.1/32"])
    async with (
        serving(replying(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) as server,
        serving(replying(OK), host="127.0.0.2", port=server.port) as inside,
        HttpClient(allowed, LARGEST, scripted_lookup(names)) as outbound,
    ):
        url = f"http://turns.example:{server.port}/"
        assert isinstance(await outbound.call(request(url)), HttpResponse)
        assert len(names["turns.example"]) == 1
        answer = await failed(outbound, url)
        assert names["turns.example"] == []
        assert (server.connections, inside.connections) == (1, 0)
    assert answer.state is CallState.ERROR
    assert answer.detail == (
        "turns.example resolves to an address that may not be called: "
        "it is neither public nor in MUSTER_CALL_NETWORKS"
    )
    assert b"turns.example" in server.requests[0]


# No answer.


async def test_a_connection_that_is_closed_without_an_answer(outbound: HttpClient) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])

    async with serving(behave) as server:
        answer = await failed(outbound, server.url)
    assert answer.state is CallState.CONNECTION_CLOSED
    assert answer.detail == "the connection was closed before the answer was complete"
    assert len(server.requests) == 1, "it is not asked again: it may have done what was asked"


@pytest.mark.parametrize(
    "part",
    [
        b"HTTP/1.1 200 OK\r\n",
        OK[:-1],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na",
    ],
    ids=["in the head", "in the body", "in a chunk"],
)
async def test_a_connection_that_is_closed_within_the_answer(
    outbound: HttpClient, part: bytes
) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(part)
        await streams[1].drain()

    async with serving(behave) as server:
        assert (await failed(outbound, server.url)).state is CallState.CONNECTION_CLOSED


async def test_a_connection_that_is_reset(outbound: HttpClient) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        raw = streams[1].get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        streams[1].transport.abort()

    async with serving(behave) as server:
        assert (await failed(outbound, server.url)).state is CallState.CONNECTION_CLOSED


async def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(
    outbound: HttpClient,
) -> None:
    closed = asyncio.Event()

    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(OK)
        streams[1].close()
        await streams[1].wait_closed()
        closed.set()

    async with serving(behave) as server:
        assert isinstance(await outbound.call(request(server.url)), HttpResponse)
        await asyncio.wait_for(closed.wait(), 5)
        for _ in range(5):  # on loopback the end is here already; the loop has to look
            await asyncio.sleep(0)
        assert isinstance(await outbound.call(request(server.url)), HttpResponse)
    assert server.connections == 2


async def test_a_server_that_says_nothing(outbound: HttpClient) -> None:
    gone = asyncio.Event()

    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        await streams[0].read()
        gone.set()

    async with serving(behave) as server:
        answer = await failed(outbound, server.url, read_timeout=0.3)
        assert (answer.state, answer.detail) == (CallState.TIMEOUT, "no answer within 0.3 s")
        assert 0.25 < answer.seconds < 3
        await asyncio.wait_for(gone.wait(), 5)  # the connection is given up, not kept


@pytest.mark.parametrize(
    "opening",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"],
    ids=["head", "body"],
)
async def test_a_server_that_sends_a_byte_now_and_then_ends_in_time(
    outbound: HttpClient, opening: bytes
) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(opening)
        for byte in b"HTTP/1.1 200 OK\r\nX-Filler: " + b"x" * 1_000:
            streams[1].write(bytes([byte]))
            await streams[1].drain()
            await asyncio.sleep(0.05)

    async with serving(behave) as server:
        began = time.monotonic()
        answer = await failed(outbound, server.url, connect_timeout=0.2, read_timeout=0.3)
        assert answer.state is CallState.TIMEOUT
        assert 0.4 < time.monotonic() - began < 3


# Not HTTP, not safe.


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=["another protocol", "no status", "two lengths", "a huge header"],
)
async def test_what_is_no_answer_is_an_error(outbound: HttpClient, raw: bytes) -> None:
    async with serving(replying(raw)) as server:
        answer = await failed(outbound, server.url)
    assert answer.state is CallState.ERROR


def secured(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1, by an authority of its own: `ca.pem`."""
    certificates = issue_certificates(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


async def test_a_certificate_that_nobody_known_has_signed(
    outbound: HttpClient, tmp_path: Path
) -> None:
    async with serving(replying(OK), ssl=secured(tmp_path)) as server:
        answer = await failed(outbound, server.url.replace("http:", "https:"))
    assert answer.state is CallState.ERROR
    assert answer.detail == "the TLS certificate of 127.0.0.1 is not trusted"
    assert server.requests == []


async def test_a_certificate_of_a_known_authority_serves_its_own_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = secured(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    names = {"other.example": [["127.0.0.1"]]}
    async with (
        serving(replying(OK), ssl=context) as server,
        HttpClient(CallPolicy(LOOPBACK), LARGEST, scripted_lookup(names)) as outbound,
    ):
        assert isinstance(
            await outbound.call(request(server.url.replace("http:", "https:"))), HttpResponse
        )
        answer = await failed(outbound, f"https://other.example:{server.port}/")
    assert answer.detail == "the TLS certificate of other.example is not trusted"
    assert len(server.requests) == 1


async def test_a_server_without_tls_where_tls_is_expected(outbound: HttpClient) -> None:
    async def behave(_: Server, streams: Streams) -> None:
        streams[1].write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await streams[1].drain()

    async with serving(behave) as server:
        answer = await failed(outbound, server.url.replace("http:", "https:"))
    assert (answer.state, answer.detail) == (
        CallState.ERROR,
        "the TLS handshake with 127.0.0.1 failed",
    )


@pytest.mark.parametrize("headers", [{"X-A": "a\r\nX-B: b"}, {"X\r\nY": "z"}])
async def test_a_header_that_would_be_two_is_not_sent(
    outbound: HttpClient, headers: dict[str, str]
) -> None:
    async with serving(replying(OK)) as server:
        answer = await failed(outbound, server.url, headers=headers)
    assert (answer.state, server.requests) == (CallState.ERROR, [])


async def test_a_call_that_is_broken_off_leaves_no_connection(outbound: HttpClient) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        asked.set()
        await streams[0].read()
        gone.set()

    async with serving(behave) as server:
        calling = asyncio.create_task(outbound.call(request(server.url)))
        await asyncio.wait_for(asked.wait(), 5)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(gone.wait(), 5)
