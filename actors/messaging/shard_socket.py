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

from services.shared.process import BackgroundTasks

log = structlog.get_logger("shard_socket")

HandleBatch: TypeAlias = Callable[[bytes], Awaitable[bytes]]

_HEAD = struct.Struct("!IQ?")  # length, call number, success
_MAX_FRAME_BYTES = 256 * 1024 * 1024
# The actor sends a challenge, new for each connection; the caller answers with its HMAC under the
# secret. So the secret is never sent, and an answer is valid for one connection only.
_PROOF = "sha256"
_SECRET_BYTES = 32  # of the secret, the challenge and the proof
_CONNECT_WITHIN = 2.0
_PROVE_WITHIN = 5.0

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
    """Splits a stream into the challenge or its proof, and the frames that follow."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take_prefix(self, data: bytes) -> bytes | None:
        """Return the first bytes once they are complete; the rest is for `feed`."""
        self._data += data
        if len(self._data) < _SECRET_BYTES:
            return None
        prefix = bytes(self._data[:_SECRET_BYTES])
        del self._data[:_SECRET_BYTES]
        return prefix

    def feed(self, data: bytes) -> Iterator[tuple[int, bool, bytes]]:
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
        self.challenged: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
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
            transport, connection = await loop.create_connection(cls, endpoint.host, endpoint.port)
            try:
                challenge = await connection.challenged
                transport.write(hmac.digest(endpoint.secret, challenge, _PROOF))
            except BaseException:
                transport.abort()
                raise
        return connection

    async def call(self, batch: bytes) -> bytes:
        """Send one batch, and return the reply.

        Raises:
            ConnectionLostError: The connection is closed.
            BatchFailedError: The actor could not handle the batch.
        """
        if self._transport is None:
            raise ConnectionLostError("the connection is closed")
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
        return self._transport is None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = _with_keepalive(transport)

    def data_received(self, data: bytes) -> None:
        """Read the challenge, then resolve the calls whose replies have arrived."""
        if not self.challenged.done():
            challenge = self._frames.take_prefix(data)
            if challenge is not None:
                self.challenged.set_result(challenge)
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
        lost = ConnectionLostError(str(exc) if exc else "the connection was closed")
        if not self.challenged.done():
            self.challenged.set_exception(lost)
            self.challenged.exception()  # mark the exception as retrieved
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(lost)


def _with_keepalive(transport: asyncio.BaseTransport) -> asyncio.Transport:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return cast("asyncio.Transport", transport)


class BatchServer:
    """The actor's end: accepts connections from callers that know its secret."""

    def __init__(self, handle: HandleBatch) -> None:
        self._handle = handle
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._server: asyncio.Server | None = None
        self._tasks = BackgroundTasks()

    async def listen(self, host: str) -> Endpoint:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Peer(self), host, 0)
        return Endpoint(host, self._server.sockets[0].getsockname()[1], self._secret)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def is_authentic(self, challenge: bytes, proof: bytes) -> bool:
        return hmac.compare_digest(proof, hmac.digest(self._secret, challenge, _PROOF))

    def answer(self, peer: "_Peer", number: int, batch: bytes) -> None:
        """Handle a batch in a task; several may be under way."""
        self._tasks.start(self._answer(peer, number, batch))

    async def _answer(self, peer: "_Peer", number: int, batch: bytes) -> None:
        try:
            reply, good = await self._handle(batch), True
        except Exception as error:
            log.exception("shard_socket.batch_failed")
            reply, good = f"{type(error).__name__}: {error}".encode(errors="replace"), False
        except BaseException:
            peer.hang_up("shard_socket.batch_cancelled")  # else the caller would wait for ever
            raise
        peer.send(number, reply, good=good)


class _Peer(asyncio.Protocol):
    """One connection at the actor's end. The first bytes must prove the secret, in time."""

    def __init__(self, server: BatchServer) -> None:
        self._server = server
        self._frames = _Frames()
        self._challenge = secrets.token_bytes(_SECRET_BYTES)
        self._is_authentic = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge, and start the time limit for the answer."""
        self._transport = _with_keepalive(transport)
        self._transport.write(self._challenge)
        asyncio.get_running_loop().call_later(_PROVE_WITHIN, self._expect_proof)

    def data_received(self, data: bytes) -> None:
        """Check the proof, then handle the batches that have arrived."""
        if not self._is_authentic:
            proof = self._frames.take_prefix(data)
            if proof is None:
                return
            if not self._server.is_authentic(self._challenge, proof):
                self.hang_up("shard_socket.not_authentic")
                return
            self._is_authentic, data = True, b""
        try:
            for number, _, batch in self._frames.feed(data):
                self._server.answer(self, number, batch)
        except ConnectionLostError:
            self.hang_up("shard_socket.frame_invalid")

    def send(self, number: int, reply: bytes, *, good: bool) -> None:
        if self._transport is not None:
            self._transport.writelines((_HEAD.pack(len(reply), number, good), reply))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def _expect_proof(self) -> None:
        if not self._is_authentic:
            self.hang_up("shard_socket.no_proof")

    def hang_up(self, event: str) -> None:
        if self._transport is not None:
            log.warning(event, peer=self._transport.get_extra_info("peername"))
            self._transport.abort()
