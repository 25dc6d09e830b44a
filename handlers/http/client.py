"""One HTTP call to a foreign server: guarded, bounded in time and size, never raising."""

import asyncio
import errno
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Self

import aiohttp
from yarl import URL

from core.shared.call_outcome import CallState
from core.shared.call_policy import CallPolicy
from handlers.http.dns import LOOKUP_TENANT, LookupsFullError, ResolveHost
from handlers.http.guarded_resolver import (
    ForbiddenDestinationError,
    GuardedResolver,
    check_destination,
)

IDLE_SECONDS = 30.0
MAX_CHECKED_URLS = 4_096
"""Size of the cache of parsed and checked URLs."""
USER_AGENT = f"muster/{version('muster')}"

CLOSED_EARLY = "the connection was closed before the answer was complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What to send, and the timeouts."""

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


class HttpClient:
    """A connection pool. It follows no redirects: they would bypass the guard."""

    def __init__(
        self, policy: CallPolicy, max_bytes: int, resolve: ResolveHost | None = None
    ) -> None:
        self._policy = policy
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._target = lru_cache(MAX_CHECKED_URLS)(self._parse)
        self._session: aiohttp.ClientSession | None = None
        self._resolver: GuardedResolver | None = None

    async def __aenter__(self) -> Self:
        self._resolver = GuardedResolver(self._policy, self._resolve)
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            limit=0,  # the callers have limits
            use_dns_cache=False,
            keepalive_timeout=IDLE_SECONDS,
            ssl=ssl.create_default_context(),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
            skip_auto_headers=("Content-Type",),  # a request without a body has no type
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()

    async def call(self, request: HttpRequest) -> HttpResponse | HttpFailure:
        """Make the call; every error becomes an HttpFailure."""
        began = time.monotonic()
        permanent = False
        LOOKUP_TENANT.set(request.tenant)
        try:
            return await (self._exchange if request.total else self._call)(request, began)
        except ForbiddenDestinationError as error:
            state, detail, permanent = CallState.ERROR, str(error), True
        except TimeoutError as error:
            state, detail = CallState.TIMEOUT, _late(error, request)
        except aiohttp.ClientConnectorCertificateError as error:
            state, detail = CallState.ERROR, untrusted(error.host)
        except aiohttp.ClientSSLError as error:
            state, detail = CallState.ERROR, insecure(error.host)
        except aiohttp.ClientConnectorError as error:
            state, detail, permanent = _unconnected(error)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, OSError):
            state, detail = CallState.CONNECTION_CLOSED, CLOSED_EARLY
        except (aiohttp.ClientError, ValueError) as error:
            state, detail = (
                CallState.ERROR,
                f"the request could not be sent: {type(error).__name__}",
            )
            permanent = isinstance(error, ValueError | aiohttp.NonHttpUrlClientError)
        return HttpFailure(state, detail, time.monotonic() - began, permanent)

    async def _call(self, request: HttpRequest, began: float) -> HttpResponse | HttpFailure:
        # Without an overall timeout, a server that sends a byte now and then holds a call for ever.
        async with asyncio.timeout(request.connect_timeout + request.read_timeout):
            return await self._exchange(request, began)

    async def _exchange(self, request: HttpRequest, began: float) -> HttpResponse | HttpFailure:
        if self._session is None:
            raise RuntimeError("not opened")
        async with self._session.request(
            request.method,
            self._target(request.url),
            data=request.body,
            headers=request.headers,
            timeout=_timeout(request.connect_timeout, request.read_timeout, request.total),
            allow_redirects=False,
        ) as response:
            body = await self._read(response, request.keep)
            seconds = time.monotonic() - began
            if body is None:
                detail = f"the answer is larger than {self._max_bytes} bytes"
                return HttpFailure(CallState.ERROR, detail, seconds)
            kind, headers = response.content_type, response.headers
            return HttpResponse(response.status, body, kind, seconds, headers)

    def _parse(self, url: str) -> URL:
        """Parse and check a URL. Host names are checked later, each time they are resolved."""
        target = URL(url)
        check_destination(target.host or "", target.port, self._policy)
        return target

    async def _read(self, response: aiohttp.ClientResponse, keep: int | None) -> bytes | None:
        """Return the body, cut to `keep` bytes if given, or None if it is too large."""
        limit = self._max_bytes if keep is None else keep
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                response.close()
                return None if keep is None else b"".join(chunks)[:keep]
        return b"".join(chunks)


@lru_cache(1_024)
def _timeout(connect: float, read: float, total: bool) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=read if total else None,
        sock_connect=connect,
        connect=connect,
        sock_read=None if total else read,
    )


def _late(error: TimeoutError, request: HttpRequest) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {request.connect_timeout:g} s"
    return f"no answer within {request.read_timeout:g} s"


def _unconnected(error: aiohttp.ClientConnectorError) -> tuple[CallState, str, bool]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ForbiddenDestinationError):
            return CallState.ERROR, str(cause), True
        if isinstance(cause, LookupsFullError):
            return CallState.CONNECTION_CLOSED, str(cause), False
        cause = cause.__cause__ or getattr(cause, "os_error", None)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return CallState.CONNECTION_CLOSED, unknown_host(error.host), False
    return CallState.CONNECTION_CLOSED, unreachable(error.os_error, error.host, error.port), False


# The failures that users see. `handlers/http/fast_client.py` reports the same.


def untrusted(host: str) -> str:
    return f"the TLS certificate of {host} is not trusted"


def insecure(host: str) -> str:
    return f"the TLS handshake with {host} failed"


def unknown_host(host: str) -> str:
    return f"DNS lookup failed for {host}"


def unreachable(error: OSError, host: str, port: int | None) -> str:
    if error.errno == errno.ECONNREFUSED:
        return f"{host}:{port} refused the connection"
    reason = os.strerror(error.errno) if error.errno else "no address of the host answered"
    return f"{host}:{port} is unreachable: {reason}"
