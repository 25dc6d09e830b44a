"""How the client uses its connections: kept, reused, sent to again, given up."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from core.shared.call_outcome import CallState
from core.shared.call_policy import LOOPBACK, CallPolicy
from handlers.http.client import HttpClient, HttpFailure, HttpResponse
from tests.integration.http.test_client_failures import secured
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

CLOSED = (CallState.CONNECTION_CLOSED, "the connection was closed before the answer was complete")


@pytest.fixture
async def quick() -> AsyncIterator[HttpClient]:
    async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as opened:
        yield opened


def serving_once_each(*, first_only: bool) -> Callable[[Server, Streams], Awaitable[None]]:
    """Answers one request of a connection and closes it at the next; the others' at the first."""

    async def behave(server: Server, streams: Streams) -> None:
        answers = server.connections == 1 or not first_only
        await server.take(streams[0])
        if answers:
            streams[1].write(OK)
            await server.take(streams[0])

    return behave


async def test_a_request_to_a_connection_that_is_just_being_closed_is_sent_anew(
    quick: HttpClient,
) -> None:
    async with serving(serving_once_each(first_only=False)) as server:
        for _ in range(3):
            assert isinstance(await quick.call(request(server.url, repeatable=True)), HttpResponse)
    assert server.connections == 3
    assert len(server.requests) == 5, "the second and the third went twice"


@pytest.mark.parametrize(("method", "sends"), [("POST", 2), ("PATCH", 2), ("GET", 3), ("PUT", 3)])
async def test_unless_the_server_need_not_bear_that(
    quick: HttpClient, method: str, sends: int
) -> None:
    async with serving(serving_once_each(first_only=False)) as server:
        assert isinstance(await quick.call(request(server.url, method=method)), HttpResponse)
        answer = await quick.call(request(server.url, method=method))
    assert isinstance(answer, HttpResponse) is (sends == 3)
    assert len(server.requests) == sends


async def test_but_only_once(quick: HttpClient) -> None:
    async with serving(serving_once_each(first_only=True)) as server:
        assert isinstance(await quick.call(request(server.url, repeatable=True)), HttpResponse)
        answer = await failed(quick, server.url, repeatable=True)
    assert (answer.state, answer.detail) == CLOSED
    assert (server.connections, len(server.requests)) == (2, 3)


async def test_and_not_after_the_first_byte(quick: HttpClient) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(OK)
        await server.take(streams[0])
        streams[1].write(b"H")

    async with serving(behave) as server:
        assert isinstance(await quick.call(request(server.url, repeatable=True)), HttpResponse)
        answer = await failed(quick, server.url, repeatable=True)
    assert (answer.state, answer.detail) == CLOSED
    assert (server.connections, len(server.requests)) == (1, 2)


async def test_sending_anew_does_not_make_the_call_longer(quick: HttpClient) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        is_first = server.connections == 1
        await server.take(streams[0])
        if is_first:
            streams[1].write(OK)
            await server.take(streams[0])
            await asyncio.sleep(0.4)
        else:
            await streams[0].read()

    async with serving(behave) as server:
        assert isinstance(await quick.call(request(server.url, repeatable=True)), HttpResponse)
        answer = await failed(quick, server.url, repeatable=True, total=True, read_timeout=0.8)
    assert (answer.state, answer.detail) == (CallState.TIMEOUT, "no answer within 0.8 s")
    assert 0.7 < answer.seconds < 1.15
    assert server.connections == 2


async def test_the_connection_used_last_is_used_first(quick: HttpClient) -> None:
    """Two at once need two connections; then one at a time needs one."""
    together = asyncio.Barrier(2)
    served: list[int] = []

    async def behave(server: Server, streams: Streams) -> None:
        number = server.connections
        while True:
            await server.take(streams[0])
            if len(server.requests) <= 2:
                await together.wait()
            else:
                served.append(number)
            streams[1].write(OK)

    async with serving(behave) as server:
        await asyncio.gather(*(quick.call(request(server.url)) for _ in range(2)))
        for _ in range(4):
            assert isinstance(await quick.call(request(server.url)), HttpResponse)
    assert server.connections == 2
    assert len(served) == 4
    assert len(set(served)) == 1


async def test_each_host_and_port_has_connections_of_its_own() -> None:
    names = {"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1"]]}
    async with (
        serving(replying(OK)) as server,
        HttpClient(CallPolicy(LOOPBACK), LARGEST, scripted_lookup(names)) as quick,
    ):
        for name in ("a", "b", "a", "b"):
            url = f"http://{name}.example:{server.port}/"
            assert isinstance(await quick.call(request(url)), HttpResponse)
    assert server.connections == 2


async def test_an_address_that_refuses_is_followed_by_the_next() -> None:
    names = {"two.example": [["127.0.0.3", "127.0.0.1"]]}
    async with (
        serving(replying(OK)) as server,
        HttpClient(CallPolicy(LOOPBACK), LARGEST, scripted_lookup(names)) as quick,
    ):
        url = f"http://two.example:{server.port}/"
        assert isinstance(await quick.call(request(url)), HttpResponse)


async def test_a_secure_connection_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = secured(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with (
        serving(replying(OK), ssl=context) as server,
        HttpClient(CallPolicy(LOOPBACK), LARGEST) as quick,
    ):
        for _ in range(3):
            url = server.url.replace("http:", "https:")
            assert isinstance(await quick.call(request(url)), HttpResponse)
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_a_handshake_that_is_never_answered_is_no_connection(quick: HttpClient) -> None:
    async def behave(_: Server, streams: Streams) -> None:
        await streams[0].read()

    async with serving(behave) as server:
        url = server.url.replace("http:", "https:")
        answer = await failed(quick, url, connect_timeout=0.3)
    assert (answer.state, answer.detail) == (CallState.TIMEOUT, "no connection within 0.3 s")


async def test_a_name_that_is_looked_up_for_ever_is_no_connection() -> None:
    async def look(_: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with HttpClient(CallPolicy(LOOPBACK), LARGEST, look) as quick:
        answer = await failed(quick, "http://slow.example/", connect_timeout=0.2)
        assert (answer.state, answer.detail) == (CallState.TIMEOUT, "no connection within 0.2 s")
        answer = await failed(quick, "http://slow.example/", read_timeout=0.2, total=True)
        assert (answer.state, answer.detail) == (CallState.TIMEOUT, "no answer within 0.2 s")


async def test_an_answer_that_comes_byte_by_byte(quick: HttpClient) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        while True:
            await server.take(streams[0])
            for byte in OK:
                streams[1].write(bytes([byte]))
                await streams[1].drain()
                await asyncio.sleep(0)

    async with serving(behave) as server:
        for _ in range(2):
            answer = await quick.call(request(server.url))
            assert isinstance(answer, HttpResponse)
            assert answer.body == b"{}"
    assert server.connections == 1


async def test_a_user_in_the_address_is_shown_to_the_server(quick: HttpClient) -> None:
    async with serving(replying(OK)) as server:
        url = server.url.replace("http://", "http://Ann:secret@")
        await quick.call(request(url))
        await quick.call(request(url, headers={"authorization": "Bearer t"}))
    assert b"\r\nAuthorization: Basic QW5uOnNlY3JldA==\r\n" in server.requests[0]
    assert b"\r\nauthorization: Bearer t\r\n" in server.requests[1]
    assert b"Basic" not in server.requests[1]
    assert f"\r\nHost: 127.0.0.1:{server.port}\r\n".encode() in server.requests[0]


# The end.


async def test_the_end_closes_what_is_idle_and_what_is_under_way() -> None:
    asked, gone = asyncio.Event(), asyncio.Semaphore(0)

    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        if len(server.requests) == 1:
            streams[1].write(OK)
            await streams[0].read()
        else:
            asked.set()
            await streams[0].read()
        gone.release()

    async with serving(behave) as server:
        async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as quick:
            await quick.call(request(server.url))
            idle = quick._idle.take(("http", "127.0.0.1", server.port))
            assert idle is not None
            calling = asyncio.create_task(quick.call(request(server.url)))
            await asyncio.wait_for(asked.wait(), 5)
            quick._idle.put(idle)
        answer = await calling
        assert isinstance(answer, HttpFailure)
        assert (answer.state, answer.detail) == CLOSED
        for _ in range(2):
            await asyncio.wait_for(gone.acquire(), 5)
        with pytest.raises(RuntimeError, match="not opened"):
            await quick.call(request(server.url))


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_no_connection_is_made_after_the_end(scheme: str) -> None:
    looked, go = asyncio.Event(), asyncio.Event()
    directory = scripted_lookup({"a.example": [["127.0.0.1"]]})

    async def look(host: str) -> list[str]:
        looked.set()
        await go.wait()
        return await directory(host)

    async with serving(replying(OK)) as server:
        async with HttpClient(CallPolicy(LOOPBACK), LARGEST, look) as quick:
            url = f"{scheme}://a.example:{server.port}/"
            calling = asyncio.create_task(quick.call(request(url)))
            await asyncio.wait_for(looked.wait(), 5)
        go.set()
        answer = await calling
    assert isinstance(answer, HttpFailure)
    assert (answer.state, answer.detail, answer.permanent) == (*CLOSED, False)
    assert server.requests == []


async def test_a_call_that_is_broken_off_while_it_connects_leaves_nothing(
    quick: HttpClient,
) -> None:
    met, gone = asyncio.Event(), asyncio.Event()

    async def behave(_: Server, streams: Streams) -> None:
        met.set()
        await streams[0].read()
        gone.set()

    async with serving(behave) as server:
        url = server.url.replace("http:", "https:")
        calling = asyncio.create_task(quick.call(request(url)))
        await asyncio.wait_for(met.wait(), 5)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await asyncio.wait_for(gone.wait(), 5)
    assert not quick._connections


# The loop that pools run on.


async def on_the_other_loop(certificates: Path, environment: pytest.MonkeyPatch) -> None:
    """Good and bad calls, one kind after the other."""
    rubbish, context = replying(b"SSH-2.0\r\n\r\n"), secured(certificates)

    async def until_the_end(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(b"HTTP/1.0 200 OK\r\n\r\nto the end")
        await streams[1].drain()

    async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as quick:
        async with serving(replying(OK)) as server:
            calls = (quick.call(request(server.url)) for _ in range(200))
            assert all(isinstance(one, HttpResponse) for one in await asyncio.gather(*calls))
            opened = server.connections
            assert isinstance(await quick.call(request(server.url)), HttpResponse)
            assert server.connections == opened
        async with serving(until_the_end) as server:
            answer = await quick.call(request(server.url))
            assert isinstance(answer, HttpResponse)
            assert answer.body == b"to the end"
        async with serving(serving_once_each(first_only=False)) as server:
            for _ in range(2):
                again = request(server.url, repeatable=True)
                assert isinstance(await quick.call(again), HttpResponse)
        async with serving(rubbish) as server:
            assert (await failed(quick, server.url)).state is CallState.ERROR
        async with serving(replying(OK), ssl=context) as server:
            answer = await failed(quick, server.url.replace("http:", "https:"))
            assert answer.detail == "the TLS certificate of 127.0.0.1 is not trusted"
        async with serving(replying(b"")) as server:
            began = time.monotonic()
            answer = await failed(quick, server.url, read_timeout=0.3, total=True)
            assert (answer.state, time.monotonic() - began < 3) == (CallState.TIMEOUT, True)
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            answer = await failed(quick, f"http://127.0.0.1:{free.getsockname()[1]}/")
            assert answer.detail.endswith(" refused the connection")
    environment.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    async with (
        serving(replying(OK), ssl=context) as server,
        HttpClient(CallPolicy(LOOPBACK), LARGEST) as quick,
    ):
        for _ in range(2):
            url = server.url.replace("http:", "https:")
            assert isinstance(await quick.call(request(url)), HttpResponse)
        assert server.connections == 1


async def test_it_is_the_same_on_the_loop_of_pools(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as environment:
        await asyncio.to_thread(uvloop.run, on_the_other_loop(tmp_path, environment))
