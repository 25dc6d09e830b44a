"""HTTP calls to foreign servers: guarded, bounded in time and size, never raising.

One client for all calls, over connections of our own, at a fraction of the cost of a library's. It
leaves out what no call needs: redirects, which would bypass the guard, proxies, cookies and HEAD.
"""

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Self

from aiohappyeyeballs import AddrInfoType, start_connection
from httptools import HttpParserError, HttpParserUpgrade
from multidict import CIMultiDict
from yarl import URL

from core.dispatch.headers import authorization_header
from core.shared.call_outcome import CallState
from core.shared.call_policy import CallPolicy
from core.shared.media_types import BYTES, media_type
from handlers.http.connection import (
    ClosedEarlyError,
    Connection,
    ConnectionKey,
    IdleConnections,
    RawResponse,
    StaleError,
)
from handlers.http.dns import LookupsFullError, ResolveHost
from handlers.http.guarded_resolver import (
    ForbiddenDestinationError,
    GuardedResolver,
    check_destination,
)

IDLE_SECONDS = 30.0
MAX_IDLE = 1_000
"""Idle connections that are kept, to all targets together."""
MAX_CHECKED_URLS = 4_096
"""Size of the cache of parsed and checked URLs."""
USER_AGENT = f"muster/{version('muster')}"

_NEXT_ADDRESS = 0.25
"""Seconds after which the next address of a host is tried as well (happy eyeballs)."""
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})
_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib tells them apart by their first bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    url: str
    method: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    connect_timeout: float
    read_timeout: float
    """For each part of the answer; for the whole call if `total`."""
    total: bool = False
    keep: int | None = None
    """Bytes after which a longer answer is cut off; None: a too long answer is a failure."""
    tenant: int = 0
    """The tenant whose share of DNS lookups the call uses."""
    repeatable: bool = False
    """Whether the server bears to get the request twice; an idempotent method implies it."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes
    content_type: str
    seconds: float
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Why there is no usable response."""

    state: CallState
    detail: str
    seconds: float
    permanent: bool = False
    """True if a retry is pointless: the target is forbidden or not a URL."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A URL, parsed and checked."""

    key: ConnectionKey
    path: str
    lines: dict[str, str]
    """Default header lines by name; a request may override them."""


class _NoCallError(Exception):
    """No connection could be made."""

    def __init__(self, state: CallState, detail: str) -> None:
        super().__init__(detail)
        self.state, self.detail = state, detail


class HttpClient:
    """A connection pool. Each connection goes to an address that the guard permitted."""

    def __init__(
        self, policy: CallPolicy, max_bytes: int, resolve: ResolveHost | None = None
    ) -> None:
        self._policy = policy
        self._max_bytes = max_bytes
        self._resolver = GuardedResolver(policy, resolve)
        self._target = lru_cache(MAX_CHECKED_URLS)(self._parse)
        self._idle = IdleConnections(MAX_IDLE, IDLE_SECONDS)
        self._connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        self._tls = ssl.create_default_context()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections, those of calls under way too."""
        self._tls = None
        self._resolver.close()
        self._idle.close()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    async def call(self, request: HttpRequest) -> HttpResponse | HttpFailure:
        """Make the call; every error becomes an HttpFailure."""
        began = time.monotonic()
        permanent = False
        try:
            return self._answer(await self._exchange(request, began), request, began)
        except ForbiddenDestinationError as error:
            state, detail, permanent = CallState.ERROR, str(error), True
        except _NoCallError as error:
            state, detail = error.state, error.detail
        except TimeoutError:
            state, detail = CallState.TIMEOUT, f"no answer within {request.read_timeout:g} s"
        except ClosedEarlyError:
            state = CallState.CONNECTION_CLOSED
            detail = "the connection was closed before the answer was complete"
        except (HttpParserError, HttpParserUpgrade, ValueError) as error:
            state = CallState.ERROR
            detail = f"the request could not be sent: {type(error).__name__}"
            permanent = isinstance(error, ValueError)
        return HttpFailure(state, detail, time.monotonic() - began, permanent)

    async def _exchange(self, request: HttpRequest, began: float) -> RawResponse:
        if self._tls is None:
            raise RuntimeError("not opened")
        target = self._target(request.url)
        message = encode_request(request, target)
        # Without an end for the whole, a server that sends a byte now and then holds a call for
        # ever.
        ends = began + request.read_timeout + (0.0 if request.total else request.connect_timeout)
        connection = self._idle.take(target.key)
        if connection is not None:
            try:
                return await self._ask(connection, message, request, ends)
            except StaleError:
                # The server closed the connection while the request was under way.
                if not request.repeatable and request.method not in _IDEMPOTENT:
                    raise
        connection = await self._connect(target.key, request, ends - time.monotonic())
        return await self._ask(connection, message, request, ends)

    async def _ask(
        self, connection: Connection, message: bytes, request: HttpRequest, ends: float
    ) -> RawResponse:
        limit = self._max_bytes if request.keep is None else request.keep
        left = ends - time.monotonic()
        reply = await connection.send_request(message, limit, left, request.read_timeout)
        if connection.is_open:
            self._idle.put(connection)
        return reply

    def _answer(
        self, reply: RawResponse, request: HttpRequest, began: float
    ) -> HttpResponse | HttpFailure:
        headers = CIMultiDict(
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in reply.headers]
        )
        body, is_cut = reply.body, reply.is_cut
        limit = self._max_bytes if request.keep is None else request.keep
        if headers.get("Content-Encoding", "").lower() in _COMPRESSED:
            body, is_cut = decompress(body, limit, is_cut)
        seconds = time.monotonic() - began
        if is_cut and request.keep is None:
            detail = f"the answer is larger than {self._max_bytes} bytes"
            return HttpFailure(CallState.ERROR, detail, seconds)
        kind = headers.get("Content-Type", BYTES)
        return HttpResponse(reply.status, body, media_type(kind), seconds, headers)

    async def _connect(self, key: ConnectionKey, request: HttpRequest, left: float) -> Connection:
        clock = asyncio.timeout(min(request.connect_timeout, left))
        try:
            async with clock:
                return await self._open(key, await self._addresses(key, request.tenant))
        except (ForbiddenDestinationError, ClosedEarlyError):
            raise
        except ssl.SSLCertVerificationError:
            detail = f"the TLS certificate of {key[1]} is not trusted"
            raise _NoCallError(CallState.ERROR, detail) from None
        except ssl.SSLError:
            detail = f"the TLS handshake with {key[1]} failed"
            raise _NoCallError(CallState.ERROR, detail) from None
        except OSError as error:
            if not clock.expired():
                detail = _unreachable(error, *key[1:])
                raise _NoCallError(CallState.CONNECTION_CLOSED, detail) from None
            if left < request.connect_timeout:
                raise
            detail = f"no connection within {request.connect_timeout:g} s"
            raise _NoCallError(CallState.TIMEOUT, detail) from None

    async def _addresses(self, key: ConnectionKey, tenant: int) -> list[AddrInfoType]:
        _, host, port = key
        try:
            ipaddress.ip_address(host)
        except ValueError:
            try:
                found = await self._resolver.resolve(tenant, host)
            except ForbiddenDestinationError:
                raise
            except LookupsFullError as error:
                raise _NoCallError(CallState.CONNECTION_CLOSED, str(error)) from None
            except OSError:
                detail = f"DNS lookup failed for {host}"
                raise _NoCallError(CallState.CONNECTION_CLOSED, detail) from None
            return [_address(one, port) for one in found]
        return [_address(host, port)]  # checked with the URL

    async def _open(self, key: ConnectionKey, addresses: list[AddrInfoType]) -> Connection:
        scheme, host, _ = key
        is_secure = scheme == "https"
        raw = await start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS)
        tls = self._tls
        if tls is None:  # closed meanwhile
            raw.close()
            raise ClosedEarlyError
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(key, self._lost),
            sock=raw,
            ssl=tls if is_secure else None,
            server_hostname=host.rstrip(".") if is_secure else None,
        )
        if self._tls is None:
            connection.close()
        elif connection.is_open:
            self._connections.add(connection)
        return connection

    def _lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()
        self._idle.forget(connection)

    def _parse(self, url: str) -> RequestTarget:
        """Parse and check a URL. Host names are checked when they are resolved."""
        read = URL(url)
        check_destination(read.host or "", read.port, self._policy)
        host, port = read.raw_host, read.port
        if read.scheme not in {"http", "https"} or not host or not port:
            raise ValueError("not an http or https URL")
        check_destination(host, port, self._policy)
        lines = {
            "host": f"Host: {read.host_port_subcomponent}\r\n",
            "user-agent": f"User-Agent: {USER_AGENT}\r\n",
            "accept": "Accept: */*\r\n",
        }
        if read.user or read.password:
            auth = {"username": read.user or "", "password": read.password or ""}
            lines["authorization"] = (
                f"Authorization: {authorization_header({'type': 'basic'} | auth)}\r\n"
            )
        return RequestTarget((read.scheme, host, port), read.raw_path_qs, lines)


def encode_request(request: HttpRequest, target: RequestTarget) -> bytes:
    """Serialize a request. Of headers that differ only in case the last one is sent.

    Raises:
        ValueError: It contains a line break, or its method has no answer that can be read.
    """
    body = request.body or b""
    lines = target.lines.copy()
    for name, value in request.headers.items():
        lines[name.lower()] = f"{name}: {value}\r\n"
    lines.pop("transfer-encoding", None)
    lines["content-length"] = f"Content-Length: {len(body)}\r\n"
    head = f"{request.method} {target.path} HTTP/1.1\r\n{''.join(lines.values())}\r\n"
    ends = len(lines) + 2
    if head.count("\r") != ends or head.count("\n") != ends or "\0" in head:
        raise ValueError("a line break in the head")
    if request.method in {"HEAD", "CONNECT"}:
        raise ValueError(f"the method {request.method} is not supported")
    return head.encode() + body


def decompress(body: bytes, limit: int, is_cut: bool) -> tuple[bytes, bool]:
    """Decompress up to `limit` bytes of a body; return them, and True if there is more.

    We never ask for compression; a body that cannot be decompressed is returned unchanged.
    """
    unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        found = unpacking.decompress(body, limit + 1)
    except zlib.error:
        return body, is_cut
    return found[:limit], is_cut or len(found) > limit


def _address(host: str, port: int) -> AddrInfoType:
    if ":" in host:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)


def _unreachable(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.ECONNREFUSED:
        return f"{host}:{port} refused the connection"
    reason = os.strerror(error.errno) if error.errno else "no address of the host answered"
    return f"{host}:{port} is unreachable: {reason}"
