"""How the demo's resources send their callbacks."""

import asyncio
from typing import Any

import aiohttp
import orjson

_MAX_CONNECTIONS = 200
# Shorter than servers keep an idle connection, so that none breaks just when it is used.
_IDLE = 2.0
_TRIES = 4
_PAUSE = 0.1
_BUSY = frozenset({429, 503})
_WITHIN = aiohttp.ClientTimeout(total=30, sock_connect=5)
_MAX_REPLY_BYTES = 64 * 1024
_HEADERS = {"Content-Type": "application/json", "User-Agent": "muster-demo-resource"}


class CallbackSender:
    """A pool of connections for callbacks."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Get ready."""
        pool = aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, keepalive_timeout=_IDLE)
        self._session = aiohttp.ClientSession(connector=pool, timeout=_WITHIN, headers=_HEADERS)

    async def close(self) -> None:
        """Let go of every connection."""
        if self._session is not None:
            await self._session.close()

    async def post(self, url: str, body: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
        """Send one callback; the status and the reply, or None and what went wrong.

        A callback counts once, so it may be sent again where a connection broke or the receiver
        was busy.
        """
        content, attempt = orjson.dumps(body), 1
        try:
            while True:
                status, reply = await self._post(url, content)
                if (status is not None and status not in _BUSY) or attempt == _TRIES:
                    return status, reply
                await asyncio.sleep(_PAUSE * 2**attempt)
                attempt += 1
        except aiohttp.InvalidURL:
            return None, {"detail": f"{url} is not an address"}

    async def _post(self, url: str, content: bytes) -> tuple[int | None, dict[str, Any]]:
        if self._session is None:
            raise RuntimeError("the sender is not open")
        try:
            async with self._session.post(url, data=content) as response:
                return response.status, _document(await _read_bounded(response))
        except aiohttp.InvalidURL:
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            return None, {"detail": str(error) or type(error).__name__}


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    try:
        # One byte more tells a reply that is too long from one that just fits.
        return await response.content.readexactly(_MAX_REPLY_BYTES + 1)
    except asyncio.IncompleteReadError as short:
        return short.partial


def _document(reply: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(reply)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
