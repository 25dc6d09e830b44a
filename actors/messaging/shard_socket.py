"""Sends batches to an actor over a direct TCP socket instead of Ray calls.

A Ray call costs both sides about a millisecond of CPU regardless of its content, which was most of
the cost of a callback at low rates. Ray still places and restarts the actor, tells callers its
port, and reports when it is gone, even if the socket stays silent.
"""

import asyncio
import hmac
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import structlog

log = structlog.get_logger("line")

HandleBatch: TypeAlias = Callable[[bytes], Awaitable[bytes]]

_HEAD = struct.Struct("!IQ?")  # length, call number, success
_MAX_FRAME_BYTES = 256 * 1024 * 1024
_SECRET_BYTES = 32
# The actor sends a challenge, new for each connection; the caller answers with its HMAC under the
# secret. So the secret is never sent, and an answer is valid for one connection only.
_CHALLENGE_BYTES = 32
_PROOF = "sha256"
_PROOF_BYTES = 32
_CONNECT_WITHIN = 2.0
_GREET_WITHIN = 5.0

# Keepalive detects a broken path, such as a firewall that dropped the connection. Not every system
# supports all of these options.
_KEEPALIVE = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 20_000,
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of an actor's socket; only callers that reach the actor by Ray get the secret."""

    host: str
    port: int
    secret: bytes = field(repr=False)


class ConnectionLostError(ConnectionError):
    """The connection is lost; batches under way may or may not have been handled."""


class BatchFailedError(Exception):
    """The actor could not handle a batch."""


class _Frames:
    """Splits a stream into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bool, bytes]]:
        """Yield the frames that are complete."""
        self._data += data
        at = 0
        while len(self._data) - at >= _HEAD.size:
            length, number, good = _HEAD.unpack_from(self._data, at)
            if length > _MAX_FRAME_BYTES:
                raise ConnectionLostError(f"a frame of {length} bytes")
            end = at + _HEAD.size + length
            if len(self._data) < end:
                break
            yield number, good, bytes(self._data[at + _HEAD.size : end])
            at = end
        del self._data[:at]


class BatchConnection(asyncio.Protocol):
    """The caller's end of a connection. Replies may arrive out of order."""

    def __init__(self) -> None:
        self._frames = _Frames()
        self._challenge: bytes | None = b""
        self._challenged: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._last = 0
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, endpoint: Endpoint) -> "BatchConnection":
        """Connect and authenticate.

        Raises:
            OSError: The actor cannot be reached, or does not answer in time.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_WITHIN):
            transport, line = await loop.create_connection(cls, endpoint.host, endpoint.port)
            try:
                await line.prove(endpoint.secret)
            except BaseException:
                transport.abort()
                raise
        return line

    async def prove(self, secret: bytes) -> None:
        """Answer the actor's challenge."""
        challenge = await self._challenged
        if self._transport is None:
            raise ConnectionLostError("the line was closed at once")
        self._transport.write(hmac.digest(secret, challenge, _PROOF))

    async def call(self, batch: bytes) -> bytes:
        """Send one batch, and return the reply.

        Raises:
            ConnectionLostError: The connection is closed.
            BatchFailedError: The actor could not handle the batch.
        """
        if self._transport is None:
            raise ConnectionLostError("the line is closed")
        if len(batch) > _MAX_FRAME_BYTES:
            raise BatchFailedError(f"a batch of {len(batch)} bytes")
        self._last += 1
        number = self._last
        answer = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self._transport.writelines((_HEAD.pack(len(batch), number, True), batch))
        try:
            return cast("bytes", await answer)
        finally:
            self._calls.pop(number, None)

    @property
    def is_lost(self) -> bool:
        """Return whether the connection is closed."""
        return self._transport is None

    def close(self) -> None:
        """Close the connection; calls under way fail."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _with_keepalive(transport)

    def data_received(self, data: bytes) -> None:
        """Read the challenge, then resolve the calls whose replies have arrived."""
        if self._challenge is not None:
            self._challenge += data[: _CHALLENGE_BYTES - len(self._challenge)]
            if len(self._challenge) < _CHALLENGE_BYTES:
                return
            if not self._challenged.done():
                self._challenged.set_result(self._challenge)
            self._challenge = None
            return  # no call has been made yet
        for number, good, payload in self._frames.feed(data):
            answer = self._calls.get(number)
            if answer is None or answer.done():
                continue  # the caller has stopped waiting
            if good:
                answer.set_result(payload)
            else:
                answer.set_exception(BatchFailedError(payload.decode()))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._challenged.done():
            self._challenged.set_exception(ConnectionLostError("the line was closed at once"))
            self._challenged.exception()  # mark the exception as retrieved
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(
                    ConnectionLostError(str(exc) if exc else "the line was closed")
                )


def _with_keepalive(transport: asyncio.BaseTransport) -> asyncio.Transport:
    held = transport.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            held.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return cast("asyncio.Transport", transport)


class BatchServer:
    """The actor's end: accepts connections from callers that know its secret."""

    def __init__(self, take: HandleBatch) -> None:
        self._take = take
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str) -> Endpoint:
        """Listen on a free port of this host."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Peer(self), host, 0)
        return Endpoint(host, self._server.sockets[0].getsockname()[1], self._secret)

    def close(self) -> None:
        """Accept no more connections."""
        if self._server is not None:
            self._server.close()

    def is_authentic(self, challenge: bytes, proof: bytes) -> bool:
        """Return whether a proof matches the challenge and our secret."""
        return hmac.compare_digest(proof, hmac.digest(self._secret, challenge, _PROOF))

    def answer(self, peer: "_Peer", number: int, batch: bytes) -> None:
        """Handle a batch in a task; several may be under way."""
        task = asyncio.create_task(self._answer(peer, number, batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, peer: "_Peer", number: int, batch: bytes) -> None:
        try:
            reply, good = await self._take(batch), True
        except Exception as error:
            log.exception("line.take_failed")
            reply, good = f"{type(error).__name__}: {error}".encode(errors="replace"), False
        except BaseException:
            peer.hang_up("line.given_up")  # else the caller would wait for ever
            raise
        peer.send(number, reply, good=good)


class _Peer(asyncio.Protocol):
    """One connection at the actor's end. The first bytes must prove the secret, in time."""

    def __init__(self, exchange: BatchServer) -> None:
        self._exchange = exchange
        self._frames = _Frames()
        self._challenge = secrets.token_bytes(_CHALLENGE_BYTES)
        self._greeting: bytes | None = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge, and start the time limit for the answer."""
        self._transport = _with_keepalive(transport)
        self._transport.write(self._challenge)
        asyncio.get_running_loop().call_later(_GREET_WITHIN, self._expect_greeted)

    def data_received(self, data: bytes) -> None:
        """Check the proof, then handle the batches that have arrived."""
        if self._greeting is not None:
            greeting = self._greeting + data[:_PROOF_BYTES]
            data = data[_PROOF_BYTES - len(self._greeting) :]
            self._greeting = greeting[:_PROOF_BYTES]
            if len(self._greeting) < _PROOF_BYTES:
                return
            if not self._exchange.is_authentic(self._challenge, self._greeting):
                self.hang_up("line.stranger")
                return
            self._greeting = None
        try:
            for number, _, batch in self._frames.feed(data):
                self._exchange.answer(self, number, batch)
        except ConnectionLostError:
            self.hang_up("line.garbled")

    def send(self, number: int, reply: bytes, *, good: bool) -> None:
        """Send a reply if the caller is still connected."""
        if self._transport is not None:
            self._transport.writelines((_HEAD.pack(len(reply), number, good), reply))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def _expect_greeted(self) -> None:
        if self._greeting is not None:
            self.hang_up("line.silent")

    def hang_up(self, event: str) -> None:
        """Close the connection and log the reason."""
        if self._transport is not None:
            log.warning(event, peer=self._transport.get_extra_info("peername"))
            self._transport.abort()
