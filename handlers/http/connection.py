"""A minimal HTTP/1.1 client connection: one request and one response at a time.

There is no pipelining: if the first of two requests failed, nobody would know of the second.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD_BYTES = 65_536
"""Maximum size of the head of a response."""
_FRAMING = 16
"""Tolerated framing bytes for each byte of a body: chunks of one byte have five."""
_FRAMED = frozenset({b"content-length", b"transfer-encoding"})

ConnectionKey: TypeAlias = tuple[str, str, int]
"""Scheme, host and port of the server."""


class ClosedEarlyError(ConnectionError):
    """The connection ended before the response did."""


class StaleError(ClosedEarlyError):
    """A reused connection ended without a byte of the response: the server had closed it."""


class LongHeadError(HttpParserError):
    """The head or the framing of the response is too long."""


class RawResponse(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    is_cut: bool
    """True if the body was longer than asked for; the rest is not read."""


class Connection(asyncio.Protocol):
    """One connection: the transport calls it as `asyncio.Protocol`, the parser calls `on_...`."""

    def __init__(self, key: ConnectionKey, on_lost: Callable[["Connection"], None]) -> None:
        self.key = key
        self.is_open = False
        self.idle_since = 0.0
        self._on_lost = on_lost
        self._has_served = False
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._parser: HttpResponseParser
        self._outcome: asyncio.Future[RawResponse | Exception] | None = None
        self._expect(0)

    def _expect(self, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._size = 0
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._is_headed = False
        self._is_complete = False
        self._is_reusable = False

    async def send_request(
        self, message: bytes, limit: int, seconds: float, silence: float = math.inf
    ) -> RawResponse:
        """Send a request and wait for its response; a cancelled wait closes the connection.

        A body is read until it is longer than `limit` bytes, then cut to them.

        Raises:
            TimeoutError: The response took more than `seconds`, or a part more than `silence`.
            ClosedEarlyError: The connection ended before the response did.
            HttpParserError: The response is not HTTP.
        """
        if self._outcome is not None:
            raise RuntimeError("a request is under way")
        if not self.is_open:
            raise ClosedEarlyError
        self._expect(limit)
        loop = asyncio.get_running_loop()
        self._outcome = loop.create_future()
        self._heard_at = time.monotonic()
        self._silence = silence
        self._ends = self._heard_at + seconds
        self._timer = loop.call_later(min(seconds, silence), self._check_time)
        try:
            self._transport.write(message)
            outcome = await self._outcome
        except BaseException:
            self.close()
            raise
        finally:
            self._timer.cancel()
            self._outcome = None
        if isinstance(outcome, Exception):
            raise outcome
        self._has_served = True
        return outcome

    def close(self) -> None:
        """Close the connection; a pending request fails with ClosedEarlyError."""
        self._end(ClosedEarlyError())
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = HttpResponseParser(self)
        # Some servers send what is not quite HTTP, and every client accepts it. It is safe here:
        # responses are not forwarded, and a connection with surplus data is closed.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Feed a part of the response to the parser; unsolicited data closes the connection."""
        if self._outcome is None or self._outcome.done():
            self.close()
            return
        self._received += len(data)
        self._heard_at = time.monotonic()
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._is_reusable = False
            if not self._is_complete:
                self._fail(error)
                return
        if self._is_complete or self._size > self._limit:
            self._finish()
        elif self._received - _FRAMING * self._size > MAX_HEAD_BYTES:
            self._fail(LongHeadError())

    def connection_lost(self, error: Exception | None) -> None:
        """Finish the pending request: a response without a length ends with its connection."""
        self.is_open = False
        if self._has_served and not self._received:
            self._end(StaleError())
        elif self._outcome is None or error is not None or self._is_framed():
            self._end(ClosedEarlyError())
        else:
            self._finish()
        if hasattr(self, "_parser"):
            del self._parser  # breaks a reference cycle
        self._on_lost(self)

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Close the connection after a second, unsolicited response."""
        if self._is_complete:
            self._is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers after the body are ignored."""
        if not self._is_headed:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return
        # Adding up the headers is needed only if everything received is longer than the limit.
        if self._received > MAX_HEAD_BYTES:
            length = sum(len(name) + len(value) for name, value in self._headers)
            if length > MAX_HEAD_BYTES:
                raise LongHeadError
        self._is_headed = True
        self._status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        if not self._is_complete:
            self._chunks.append(data)
            self._size += len(data)

    def on_message_complete(self) -> None:
        """Note the end of the response; an interim one (1xx) is followed by the real one."""
        if self._is_complete:
            return
        if self._status < 200:
            self._headers = []
            self._is_headed = False
            return
        self._is_complete = True
        self._is_reusable = self._parser.should_keep_alive()

    def _check_time(self) -> None:
        left = min(self._ends, self._heard_at + self._silence) - time.monotonic()
        if left <= 0:
            self._fail(TimeoutError())
        else:
            self._timer = asyncio.get_running_loop().call_later(left, self._check_time)

    def _is_framed(self) -> bool:
        """Return True if the response has an explicit length, or its head is incomplete."""
        return not self._is_headed or any(name.lower() in _FRAMED for name, _ in self._headers)

    def _finish(self) -> None:
        is_cut = self._size > self._limit
        body = b"".join(self._chunks)[: self._limit]
        self._chunks = []  # an idle connection keeps no memory
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

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._stacks: dict[ConnectionKey, list[Connection]] = {}
        self._by_age: dict[Connection, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._by_age)

    def put(self, connection: Connection) -> None:
        """Keep a connection; beyond the limit, close the one that has been idle longest."""
        connection.idle_since = time.monotonic()
        self._stacks.setdefault(connection.key, []).append(connection)
        self._by_age[connection] = None
        if len(self._by_age) > self._limit:
            self._drop(next(iter(self._by_age)))
        if self._timer is None:
            self._schedule_check(self._seconds)

    def take(self, key: ConnectionKey) -> Connection | None:
        """Return an open connection to this server that has not been idle for too long."""
        stack = self._stacks.get(key)
        if stack is None:
            return None
        connection = stack[-1]
        if time.monotonic() - connection.idle_since > self._seconds:
            return None  # those below are older; the next check closes them all
        self.forget(connection)
        return connection

    def forget(self, connection: Connection) -> None:
        """Remove a connection that is in use again or closed."""
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
        for connection in list(self._by_age):
            self._drop(connection)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self, connection: Connection) -> None:
        self.forget(connection)
        connection.close()

    def _schedule_check(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._close_expired)

    def _close_expired(self) -> None:
        """Close the connections whose time is over and schedule the next check."""
        self._timer = None
        now = time.monotonic()
        for connection in list(self._by_age):
            left = connection.idle_since + self._seconds - now
            if left > 0:
                self._schedule_check(left)
                return
            self._drop(connection)
