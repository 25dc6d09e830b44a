"""HTTP/1.1 connections of our own: a request goes out in one piece, its answer comes back.

A connection has one request at a time. What is on its way in a second one would not be known to
have arrived, should the first end badly.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD_BYTES = 65_536
"""Bytes of an answer's head. More is no answer."""
_FRAMING = 16
"""Bytes around each byte of a body that are borne: chunks of one byte have five."""
_FRAMED = frozenset({b"content-length", b"transfer-encoding"})

ConnectionKey: TypeAlias = tuple[str, str, int]
"""Scheme, host and port: whose connection it is."""


class ClosedEarlyError(ConnectionError):
    """It ended before the answer did."""


class StaleError(ClosedEarlyError):
    """It had served before, and ended without a byte of this answer: nobody was there any more."""


class LongHeadError(HttpParserError):
    """There is more around the answer than there is any use for."""


class RawResponse(NamedTuple):
    """What came back."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    is_cut: bool
    """There was more than was asked for; the rest is not read."""


class Connection(asyncio.Protocol):
    """One connection, as its transport sees it (`asyncio.Protocol`) and its parser (`on_...`)."""

    def __init__(self, key: ConnectionKey, on_lost: Callable[["Connection"], None]) -> None:
        self.key = key
        self.is_open = False
        self.idle_since = 0.0
        self._on_lost = on_lost
        self._has_served = False
        self._transport: asyncio.Transport
        self._parser: HttpResponseParser
        self._outcome: asyncio.Future[RawResponse | Exception] | None = None
        self._expect(0)

    def _expect(self, most: int) -> None:
        self._most = most
        self._received = 0
        self._size = 0
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._is_headed = False
        self._is_complete = False
        self._is_reusable = False

    async def send_request(self, message: bytes, most: int, seconds: float) -> RawResponse:
        """Send a request and wait for its answer. Whoever stops waiting closes the connection.

        Of a body longer than `most` bytes, so many and some more are read.

        Raises:
            TimeoutError: It took longer than it may.
            ClosedEarlyError: The connection ended before.
            HttpParserError: What came back is no answer.
        """
        if self._outcome is not None:
            raise RuntimeError("one at a time")
        if not self.is_open:
            raise ClosedEarlyError
        self._expect(most)
        loop = asyncio.get_running_loop()
        self._outcome = loop.create_future()
        timer = loop.call_later(seconds, self._fail, TimeoutError())
        try:
            self._transport.write(message)
            outcome = await self._outcome
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._outcome = None
        if isinstance(outcome, Exception):
            raise outcome
        self._has_served = True
        return outcome

    def close(self) -> None:
        """End it. What is still waited for will not come."""
        self._end(ClosedEarlyError())
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = cast("asyncio.Transport", transport)  # as every stream's is
        self._parser = HttpResponseParser(self)
        # What some servers write and every client reads. It leads nobody astray here: an answer is
        # read for nobody else, and a connection with anything left after it is closed.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """A piece of the answer. Where nothing was asked, nothing should come."""
        if self._outcome is None or self._outcome.done():
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._is_reusable = False
            if not self._is_complete:
                self._fail(error)
                return
        if self._is_complete or self._size > self._most:
            self._finish()
        elif self._received - _FRAMING * self._size > MAX_HEAD_BYTES:
            self._fail(LongHeadError())

    def connection_lost(self, error: Exception | None) -> None:
        """It is over. An answer of no given length ends with it."""
        self.is_open = False
        if self._has_served and not self._received:
            self._end(StaleError())
        elif self._outcome is None or error is not None or self._is_framed():
            self._end(ClosedEarlyError())
        else:
            self._finish()
        if hasattr(self, "_parser"):
            del self._parser  # it knows this object: neither would go by itself
        self._on_lost(self)

    # What the parser tells.

    def on_message_begin(self) -> None:
        """Another answer, of which only one is waited for."""
        if self._is_complete:
            self._is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or what comes after a body in its place."""
        if not self._is_headed:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there."""
        if self._is_complete:
            return
        # If all that came is not too long, its head is not.
        if self._received > MAX_HEAD_BYTES:
            length = sum(len(name) + len(value) for name, value in self._headers)
            if length > MAX_HEAD_BYTES:
                raise LongHeadError
        self._is_headed = True
        self._status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        if not self._is_complete:
            self._chunks.append(data)
            self._size += len(data)

    def on_message_complete(self) -> None:
        """All of it is there; unless it only says that the answer will come."""
        if self._is_complete:
            return
        if self._status < 200:
            self._headers = []
            self._is_headed = False
            return
        self._is_complete = True
        self._is_reusable = self._parser.should_keep_alive()

    # Ends.

    def _is_framed(self) -> bool:
        """Whether the answer has an end of its own, or not even a whole head."""
        return not self._is_headed or any(name.lower() in _FRAMED for name, _ in self._headers)

    def _finish(self) -> None:
        is_cut = self._size > self._most
        body = b"".join(self._chunks)[: self._most]
        self._chunks = []  # an idle connection holds nothing
        self._end(RawResponse(self._status, self._headers, body, is_cut))
        if is_cut or not self._is_reusable or self._transport.get_write_buffer_size():
            self.close()

    def _fail(self, error: Exception) -> None:
        self._end(error)
        self.close()

    def _end(self, outcome: RawResponse | Exception) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)


class IdleConnections:
    """Connections that wait for the next request; the one used last is used first."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._stacks: dict[ConnectionKey, list[Connection]] = {}
        self._by_age: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._by_age)

    def put(self, connection: Connection) -> None:
        """Keep one. Where there are too many, the one that is idle longest is closed."""
        connection.idle_since = time.monotonic()
        self._stacks.setdefault(connection.key, []).append(connection)
        self._by_age[connection] = None
        if len(self._by_age) > self._most:
            self._drop(next(iter(self._by_age)))
        if self._timer is None:
            self._look_in(self._seconds)

    def take(self, key: ConnectionKey) -> Connection | None:
        """One that leads there, if one is open and not idle for too long."""
        stack = self._stacks.get(key)
        if stack is None:
            return None
        connection = stack[-1]
        if time.monotonic() - connection.idle_since > self._seconds:
            return None  # nor are those below: they will be closed when they are looked at
        self.forget(connection)
        return connection

    def forget(self, connection: Connection) -> None:
        """It is not idle, or is no more."""
        if connection not in self._by_age:
            return
        del self._by_age[connection]
        stack = self._stacks[connection.key]
        if stack[-1] is connection:
            stack.pop()
        else:
            stack.remove(connection)
        if not stack:
            del self._stacks[connection.key]

    def close(self) -> None:
        """End all of them."""
        for connection in list(self._by_age):
            self._drop(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self, connection: Connection) -> None:
        self.forget(connection)
        connection.close()

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Close those whose time is over; come back when the next one's is."""
        self._timer = None
        now = time.monotonic()
        for connection in list(self._by_age):
            left = connection.idle_since + self._seconds - now
            if left > 0:
                self._look_in(left)
                return
            self._drop(connection)
