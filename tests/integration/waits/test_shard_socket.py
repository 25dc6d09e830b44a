"""The line to an actor: over a real socket on loopback."""

import asyncio
import contextlib
import hmac
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from actors.messaging import shard_socket as module
from actors.messaging.shard_socket import (
    BatchConnection,
    BatchFailedError,
    BatchServer,
    ConnectionLostError,
    Endpoint,
)

HOST = "127.0.0.1"


class Actor:
    """Answers what it was sent, backwards, when it is let."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def take(self, batch: bytes) -> bytes:
        self.taken.append(batch)
        self.asked.set()
        if batch == b"slow":
            await self.open.wait()
        if batch == b"bad":
            raise ValueError("no")
        return batch[::-1]


@contextlib.asynccontextmanager
async def lines(
    actor: Actor, count: int = 1
) -> AsyncIterator[tuple[Endpoint, list[BatchConnection]]]:
    exchange = BatchServer(actor.take)
    endpoint = await exchange.listen(HOST)
    opened = [await BatchConnection.open(endpoint) for _ in range(count)]
    try:
        yield endpoint, opened
    finally:
        for connection in opened:
            connection.close()
        exchange.close()


async def test_calls_are_answered_and_may_overtake_each_other() -> None:
    actor = Actor()
    actor.open.clear()
    async with lines(actor) as (_, [connection]):
        slow = asyncio.create_task(connection.call(b"slow"))
        assert await connection.call(b"abc") == b"cba"
        assert not slow.done()
        actor.open.set()
        assert await slow == b"wols"


async def test_a_large_batch_and_an_empty_one_arrive_whole() -> None:
    large = bytes(range(256)) * 40_000
    async with lines(Actor()) as (_, [connection]):
        assert await connection.call(large) == large[::-1]
        assert await connection.call(b"") == b""


async def test_a_path_that_is_gone_is_noticed_by_the_socket() -> None:
    async with lines(Actor()) as (_, [connection]):
        assert connection._transport is not None
        held = connection._transport.get_extra_info("socket")
        assert held.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000


async def test_many_callers_at_once_each_get_their_own_answer() -> None:
    async with lines(Actor(), 3) as (_, opened):
        sent = [
            (connection, f"{number}-{n}".encode())
            for number, connection in enumerate(opened)
            for n in range(200)
        ]
        answers = await asyncio.gather(*(connection.call(batch) for connection, batch in sent))
    assert answers == [batch[::-1] for _, batch in sent]


async def test_what_the_actor_cannot_do_fails_that_call_alone() -> None:
    async with lines(Actor()) as (_, [connection]):
        with pytest.raises(BatchFailedError, match="ValueError: no"):
            await connection.call(b"bad")
        assert await connection.call(b"abc") == b"cba"


async def test_a_closed_line_fails_who_waits_and_who_comes_later() -> None:
    actor = Actor()
    actor.open.clear()
    async with lines(actor) as (_, [connection]):
        waiting = asyncio.create_task(connection.call(b"slow"))
        await asyncio.wait_for(actor.asked.wait(), 5)
        connection.close()
        with pytest.raises(ConnectionLostError):
            await waiting
        assert connection.is_lost
        with pytest.raises(ConnectionLostError):
            await connection.call(b"abc")


async def test_a_stranger_is_hung_up_on_and_nothing_is_taken() -> None:
    actor = Actor()
    async with lines(actor) as (endpoint, _):
        connection = await BatchConnection.open(
            replace(endpoint, secret=b"x" * len(endpoint.secret))
        )
        with pytest.raises(ConnectionLostError):
            await connection.call(b"abc")
    assert actor.taken == []


async def proof(endpoint: Endpoint, reader: asyncio.StreamReader) -> bytes:
    """What somebody who knows the secret answers to the challenge."""
    challenge = await reader.readexactly(32)
    return hmac.digest(endpoint.secret, challenge, "sha256")


async def test_a_proof_is_good_for_one_line_only() -> None:
    """Whoever has listened to one cannot open another; the secret itself is never sent."""
    actor = Actor()
    async with lines(actor) as (endpoint, _):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        heard = await proof(endpoint, reader)
        assert heard != endpoint.secret
        writer.close()
        for replayed in (heard, endpoint.secret):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            await reader.readexactly(32)
            writer.write(replayed + module._HEAD.pack(3, 1, True) + b"abc")
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
    assert actor.taken == []


async def test_a_caller_sends_no_secret_to_whoever_listens_there() -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in (b"c" * 20, b"c" * 12):  # a challenge in pieces is a challenge
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        heard.extend(await reader.readexactly(32))
        writer.close()

    secret = b"s" * 32
    async with await asyncio.start_server(listen, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await BatchConnection.open(Endpoint(HOST, port, secret))
        with pytest.raises(ConnectionLostError):
            await connection.call(b"abc")
    assert bytes(heard) == hmac.digest(secret, b"c" * 32, "sha256")


async def test_an_end_without_a_challenge_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_WITHIN", 0.2)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    for behaviour, error in ((hang_up, ConnectionLostError), (be_silent, TimeoutError)):
        async with await asyncio.start_server(behaviour, HOST, 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(error):
                await BatchConnection.open(Endpoint(HOST, port, b"s" * 32))


async def test_who_does_not_say_who_it_is_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PROVE_WITHIN", 0.05)
    async with lines(Actor()) as (endpoint, [connection]):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        await reader.readexactly(32)
        writer.write(b"hello")
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        # The one who did is still there.
        assert await connection.call(b"abc") == b"cba"


async def test_a_greeting_in_pieces_is_a_greeting() -> None:
    actor = Actor()
    async with lines(actor) as (endpoint, _):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        whole = await proof(endpoint, reader) + module._HEAD.pack(3, 1, True) + b"abc"
        for byte in whole:
            writer.write(bytes([byte]))
            await writer.drain()
        await asyncio.wait_for(actor.asked.wait(), 5)
        writer.close()
    assert actor.taken == [b"abc"]


async def test_a_frame_that_cannot_be_is_the_end_of_the_line() -> None:
    async with lines(Actor()) as (endpoint, _):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(await proof(endpoint, reader) + module._HEAD.pack(2**32 - 1, 1, True))
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_a_batch_that_no_frame_can_carry_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_FRAME_BYTES", 10)
    async with lines(Actor()) as (_, [connection]):
        with pytest.raises(BatchFailedError):
            await connection.call(b"12345678901")
        assert await connection.call(b"abc") == b"cba"


def test_the_secret_is_not_shown() -> None:
    assert "hush" not in repr(Endpoint(HOST, 1, b"hush"))


async def test_nobody_there_is_an_error_of_the_system() -> None:
    async with lines(Actor()) as (endpoint, _):
        pass
    with pytest.raises(ConnectionRefusedError):
        await BatchConnection.open(Endpoint(HOST, 1, endpoint.secret))
