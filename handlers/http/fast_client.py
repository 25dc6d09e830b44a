"""The calls of `handlers/http/client.py` at a fraction of their cost, for those that are many.

The same guard, bounds and words. Requests are written and answers read by
`handlers/http/connection.py` alone; what is left out is what no delivery needs: redirects, proxies,
cookies, HEAD, timeouts of single parts of an answer.
"""

import asyncio
import ipaddress
import socket
import ssl
import time
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from aiohappyeyeballs import AddrInfoType, start_connection
from httptools import HttpParserError, HttpParserUpgrade
from multidict import CIMultiDict
from yarl import URL

from core.dispatch.headers import authorization_header
from core.shared.call_outcome import CallState
from core.shared.call_policy import CallPolicy
from core.shared.media_types import BYTES, media_type
from handlers.http.client import (
    CLOSED_EARLY,
    IDLE_SECONDS,
    INSECURE,
    MAX_CHECKED_URLS,
    UNKNOWN_NAME,
    UNREACHABLE,
    UNTRUSTED,
    USER_AGENT,
    HttpFailure,
    HttpRequest,
    HttpResponse,
)
from handlers.http.connection import (
    ClosedEarlyError,
    Connection,
    ConnectionKey,
    IdleConnections,
    RawResponse,
    StaleError,
)
from handlers.http.dns import LOOKUP_TENANT, LookupsFullError, ResolveHost
from handlers.http.guarded_resolver import (
    ForbiddenDestinationError,
    GuardedResolver,
    check_destination,
)

MAX_IDLE = 1_000
"""Connections that are kept for later, to all targets together."""
_NEXT_ADDRESS = 0.25
"""Seconds after which the next address of a name is tried beside the one before."""
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_EITHER = 32 + zlib.MAX_WBITS
"""As zlib has it: packed in one way or the other, its first bytes tell."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """An address, read and checked."""

    key: ConnectionKey
    path: str
    lines: dict[str, str]
    """Headers that each request to it has, unless it sets them itself, by their names."""


class _NoCallError(Exception):
    """There is no connection, for this reason."""

    def __init__(self, state: CallState, detail: str, hopeless: bool = False) -> None:
        super().__init__(detail)
        self.state, self.detail, self.permanent = state, detail, hopeless


class FastHttpClient:
    """A pool of connections. Each leads to an address that the guard let pass when it was made."""

    def __init__(
        self, destinations: CallPolicy, largest: int, look: ResolveHost | None = None
    ) -> None:
        self._destinations = destinations
        self._largest = largest
        self._resolver = GuardedResolver(destinations, look)
        self._target = lru_cache(MAX_CHECKED_URLS)(self._checked)
        self._idle = IdleConnections(MAX_IDLE, IDLE_SECONDS)
        self._connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        self._tls = ssl.create_default_context()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything; calls under way have their connection closed."""
        self._tls = None
        await self._resolver.close()
        self._idle.close()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    async def call(self, request: HttpRequest) -> HttpResponse | HttpFailure:
        """Make the call; every way it can go wrong is an answer of its own.

        The read timeout is that of the whole answer; unless `total`, the one for connecting is
        added to it.
        """
        began = time.monotonic()
        hopeless = False
        try:
            return self._answer(await self._exchange(request, began), request, began)
        except ForbiddenDestinationError as error:
            state, detail, hopeless = CallState.ERROR, str(error), True
        except _NoCallError as error:
            state, detail, hopeless = error.state, error.detail, error.permanent
        except TimeoutError:
            state, detail = CallState.TIMEOUT, f"no answer within {request.read_timeout:g} s"
        except ClosedEarlyError:
            state, detail = CallState.CONNECTION_CLOSED, CLOSED_EARLY
        except (HttpParserError, HttpParserUpgrade, ValueError) as error:
            state, detail = CallState.ERROR, f"the call cannot be made: {type(error).__name__}"
            hopeless = isinstance(error, ValueError)
        return HttpFailure(state, detail, time.monotonic() - began, hopeless)

    async def _exchange(self, request: HttpRequest, began: float) -> RawResponse:
        if self._tls is None:
            raise RuntimeError("not opened")
        target = self._target(request.url)
        message = encode_request(request, target)
        most = self._largest if request.keep is None else request.keep
        seconds = request.read_timeout + (0.0 if request.total else request.connect_timeout)
        connection = self._idle.take(target.key)
        if connection is not None:
            try:
                return await self._ask(connection, message, most, seconds)
            except StaleError:
                # It was closed while the request was on its way to it. Whoever sends deliveries
                # sends them at least once anyway.
                pass
        ends = began + seconds
        LOOKUP_TENANT.set(request.tenant)
        connection = await self._connect(target.key, request, ends - time.monotonic())
        return await self._ask(connection, message, most, ends - time.monotonic())

    async def _ask(
        self, connection: Connection, message: bytes, most: int, seconds: float
    ) -> RawResponse:
        reply = await connection.send_request(message, most, seconds)
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
        most = self._largest if request.keep is None else request.keep
        if headers.get("Content-Encoding", "").lower() in _PACKED:
            body, is_cut = decompress(body, most, is_cut)
        seconds = time.monotonic() - began
        if is_cut and request.keep is None:
            detail = f"the answer is larger than {self._largest} bytes"
            return HttpFailure(CallState.ERROR, detail, seconds)
        kind = headers.get("Content-Type", BYTES)
        return HttpResponse(reply.status, body, media_type(kind), seconds, headers)

    # Connections.

    async def _connect(self, key: ConnectionKey, request: HttpRequest, left: float) -> Connection:
        """A new connection, to one of the addresses that may be called."""
        clock = asyncio.timeout(min(request.connect_timeout, left))
        try:
            async with clock:
                connection = await self._open(key, await self._addresses(key))
        except (ForbiddenDestinationError, ClosedEarlyError):
            raise
        except ssl.SSLCertVerificationError:
            raise _NoCallError(CallState.ERROR, UNTRUSTED) from None
        except ssl.SSLError:
            raise _NoCallError(CallState.ERROR, INSECURE) from None
        except OSError:
            if not clock.expired():
                raise _NoCallError(CallState.CONNECTION_CLOSED, UNREACHABLE) from None
            if left < request.connect_timeout:
                raise
            detail = f"no connection within {request.connect_timeout:g} s"
            raise _NoCallError(CallState.TIMEOUT, detail) from None
        return connection

    async def _addresses(self, key: ConnectionKey) -> list[AddrInfoType]:
        _, host, port = key
        try:
            ipaddress.ip_address(host)
        except ValueError:
            try:
                found = await self._resolver.resolve(host, port, socket.AF_UNSPEC)
            except ForbiddenDestinationError:
                raise
            except LookupsFullError as error:
                raise _NoCallError(CallState.CONNECTION_CLOSED, str(error)) from None
            except OSError:
                raise _NoCallError(CallState.CONNECTION_CLOSED, UNKNOWN_NAME) from None
            return [_address(one["host"], one["port"]) for one in found]
        return [_address(host, port)]  # checked when the target was read

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

    def _checked(self, url: str) -> RequestTarget:
        """Where to call. Names are checked when they are resolved, for each connection.

        Raises:
            ForbiddenDestinationError: It may not be called.
            ValueError: It is no address that can be.
        """
        read = URL(url)
        check_destination(read.host or "", read.port, self._destinations)
        host, port = read.raw_host, read.port
        if read.scheme not in {"http", "https"} or not host or not port:
            raise ValueError("no address of a web server")
        check_destination(host, port, self._destinations)
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
    """A request as it goes over the wire. Of headers that differ in case the last is sent.

    Raises:
        ValueError: Something in it would end a line, or its answer could not be read.
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
        raise ValueError("a line within a line")
    if request.method in {"HEAD", "CONNECT"}:
        raise ValueError("a method whose answer has no body of its own")
    return head.encode() + body


def decompress(body: bytes, most: int, is_cut: bool) -> tuple[bytes, bool]:
    """So much of what a packed body has in it, and whether there is more.

    Nobody is asked to pack answers. What cannot be unpacked stays as it came.
    """
    unpacking = zlib.decompressobj(_EITHER)
    try:
        found = unpacking.decompress(body, most + 1)
    except zlib.error:
        return body, is_cut
    return found[:most], is_cut or len(found) > most


def _address(host: str, port: int) -> AddrInfoType:
    if ":" in host:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port)
