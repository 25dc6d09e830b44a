"""One HTTP call to somebody else's server: guarded, bounded in time and size, never raising."""

import asyncio
import ssl
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

import aiohttp
from yarl import URL

from core.destinations import Destinations
from core.gather import State
from handlers.guarded import ForbiddenDestinationError, GuardedResolver, Look, check_literal

IDLE_CONNECTION = 30.0
_AGENT = f"muster/{version('muster')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send, and how long each part may take."""

    url: str
    method: str
    headers: dict[str, str]
    body: bytes
    connect_timeout: float
    read_timeout: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other side said."""

    status: int
    body: bytes
    content_type: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why it said nothing that could be used."""

    state: State
    detail: str
    seconds: float


class Outbound:
    """A pool of connections. Redirects are not followed: they would lead round the guard."""

    def __init__(self, destinations: Destinations, largest: int, look: Look | None = None) -> None:
        self._destinations = destinations
        self._largest = largest
        self._look = look
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._destinations, self._look),
            limit=0,  # whoever calls has its own bounds
            use_dns_cache=False,
            keepalive_timeout=IDLE_CONNECTION,
            ssl=ssl.create_default_context(),
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": _AGENT},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, request: Request) -> Answer | Failure:
        """Make the call; every way it can go wrong is an answer of its own."""
        began = time.monotonic()
        try:
            return await self._call(request, began)
        except ForbiddenDestinationError as error:
            state, detail = State.ERROR, str(error)
        except TimeoutError as error:
            state, detail = State.TIMEOUT, _late(error, request)
        except aiohttp.ClientConnectorCertificateError:
            state, detail = State.ERROR, "the server's certificate is not to be trusted"
        except aiohttp.ClientSSLError:
            state, detail = State.ERROR, "no secure connection can be made"
        except aiohttp.ClientConnectorError as error:
            state, detail = _unconnected(error)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, OSError):
            state, detail = State.CONNECTION_CLOSED, "the connection was closed before the answer"
        except (aiohttp.ClientError, ValueError) as error:
            state, detail = State.ERROR, f"the call cannot be made: {type(error).__name__}"
        return Failure(state, detail, time.monotonic() - began)

    async def _call(self, request: Request, began: float) -> Answer | Failure:
        if self._session is None:
            raise RuntimeError("not opened")
        url = URL(request.url)
        check_literal(url.host or "", self._destinations)
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=request.connect_timeout,
            connect=request.connect_timeout,
            sock_read=request.read_timeout,
        )
        async with (
            # A server that sends a byte now and then must not hold a call for ever.
            asyncio.timeout(request.connect_timeout + request.read_timeout),
            self._session.request(
                request.method,
                url,
                data=request.body,
                headers=request.headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response,
        ):
            body = await self._read(response)
            seconds = time.monotonic() - began
            if body is None:
                detail = f"the answer is larger than {self._largest} bytes"
                return Failure(State.ERROR, detail, seconds)
            return Answer(response.status, body, response.content_type, seconds)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | None:
        """The body, or None if there is too much of it."""
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > self._largest:
                response.close()
                return None
            chunks.append(chunk)
        return b"".join(chunks)


def _late(error: TimeoutError, request: Request) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {request.connect_timeout:g} s"
    return f"no answer within {request.read_timeout:g} s"


def _unconnected(error: aiohttp.ClientConnectorError) -> tuple[State, str]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ForbiddenDestinationError):
            return State.ERROR, str(cause)
        cause = cause.__cause__ or getattr(cause, "os_error", None)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return State.CONNECTION_CLOSED, "its name leads nowhere"
    return State.CONNECTION_CLOSED, "no connection: it is refused or unreachable"
