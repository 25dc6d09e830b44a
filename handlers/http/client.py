"""One HTTP call to somebody else's server: guarded, bounded in time and size, never raising."""

import asyncio
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
"""Addresses that are remembered as read and checked."""
USER_AGENT = f"muster/{version('muster')}"

# What becomes of calls, in words that are shown to people.
UNTRUSTED = "the server's certificate is not to be trusted"
INSECURE = "no secure connection can be made"
CLOSED_EARLY = "the connection was closed before the answer"
UNKNOWN_NAME = "its name leads nowhere"
UNREACHABLE = "no connection: it is refused or unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What to send, and how long each part may take."""

    url: str
    method: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    connect_timeout: float
    read_timeout: float
    """Of each part of the answer; of all of it, if `total`."""
    total: bool = False
    """Whether connecting counts: then all is over when the read timeout is."""
    keep: int | None = None
    """Of a longer answer so much is kept and the rest not read; None: such an answer is none."""
    tenant: int = 0
    """Whose call it is: a tenant has its share of the names that are resolved at once."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What the other side said."""

    status: int
    body: bytes
    content_type: str
    seconds: float
    headers: Mapping[str, str] = field(default_factory=dict)
    """In any case."""


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Why it said nothing that could be used."""

    state: CallState
    detail: str
    seconds: float
    permanent: bool = False
    """The same call will never be made: its target is forbidden, or is none."""


class HttpClient:
    """A pool of connections. Redirects are not followed: they would lead round the guard."""

    def __init__(
        self, destinations: CallPolicy, largest: int, look: ResolveHost | None = None
    ) -> None:
        self._destinations = destinations
        self._largest = largest
        self._look = look
        self._target = lru_cache(MAX_CHECKED_URLS)(self._checked)
        self._session: aiohttp.ClientSession | None = None
        self._resolver: GuardedResolver | None = None

    async def __aenter__(self) -> Self:
        self._resolver = GuardedResolver(self._destinations, self._look)
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            limit=0,  # whoever calls has its own bounds
            use_dns_cache=False,
            keepalive_timeout=IDLE_SECONDS,
            ssl=ssl.create_default_context(),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
            skip_auto_headers=("Content-Type",),  # what has no body has no kind
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()

    async def call(self, request: HttpRequest) -> HttpResponse | HttpFailure:
        """Make the call; every way it can go wrong is an answer of its own."""
        began = time.monotonic()
        hopeless = False
        LOOKUP_TENANT.set(request.tenant)
        try:
            return await (self._exchange if request.total else self._call)(request, began)
        except ForbiddenDestinationError as error:
            state, detail, hopeless = CallState.ERROR, str(error), True
        except TimeoutError as error:
            state, detail = CallState.TIMEOUT, _late(error, request)
        except aiohttp.ClientConnectorCertificateError:
            state, detail = CallState.ERROR, UNTRUSTED
        except aiohttp.ClientSSLError:
            state, detail = CallState.ERROR, INSECURE
        except aiohttp.ClientConnectorError as error:
            state, detail, hopeless = _unconnected(error)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, OSError):
            state, detail = CallState.CONNECTION_CLOSED, CLOSED_EARLY
        except (aiohttp.ClientError, ValueError) as error:
            state, detail = CallState.ERROR, f"the call cannot be made: {type(error).__name__}"
            hopeless = isinstance(error, ValueError | aiohttp.NonHttpUrlClientError)
        return HttpFailure(state, detail, time.monotonic() - began, hopeless)

    async def _call(self, request: HttpRequest, began: float) -> HttpResponse | HttpFailure:
        # A server that sends a byte now and then must not hold a call for ever.
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
                detail = f"the answer is larger than {self._largest} bytes"
                return HttpFailure(CallState.ERROR, detail, seconds)
            kind, headers = response.content_type, response.headers
            return HttpResponse(response.status, body, kind, seconds, headers)

    def _checked(self, url: str) -> URL:
        """Where to call. Names are checked when they are resolved, which is each time."""
        target = URL(url)
        check_destination(target.host or "", target.port, self._destinations)
        return target

    async def _read(self, response: aiohttp.ClientResponse, keep: int | None) -> bytes | None:
        """The body, cut if it may be, or None if there is too much of it."""
        most = self._largest if keep is None else keep
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
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
        return CallState.CONNECTION_CLOSED, UNKNOWN_NAME, False
    return CallState.CONNECTION_CLOSED, UNREACHABLE, False
