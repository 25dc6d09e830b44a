"""A thin client of Muster's HTTP API."""

import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from cli.shell.errors import CommandError
from cli.shell.instance import Instance
from cli.shell.problems import parse_problem

_ANSWER_TIMEOUT, _CONNECT_TIMEOUT = 30.0, 5.0
Document = Mapping[str, Any]
QueryValue = str | int | float | Sequence[str]
QueryParams = Mapping[str, QueryValue | None]


class UnreachableError(CommandError):
    """No answer came from the address, or the answer broke off."""


class Client:
    """Sends requests to one instance; every refusal is a `CommandError`."""

    def __init__(self, instance: Instance, http: httpx.AsyncClient) -> None:
        self.instance = instance
        self._http = http

    async def get(
        self, path: str, params: QueryParams | None = None, *, server_wait: float = 0
    ) -> Any:
        """Read a document, for which the server may take `server_wait` seconds more."""
        return await self._send("GET", path, params=_without_none(params), server_wait=server_wait)

    async def post(
        self,
        path: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
        *,
        params: QueryParams | None = None,
        server_wait: float = 0,
    ) -> Any:
        """Send a JSON document; bytes are taken for an encoded one."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        typed = {"Content-Type": "application/json", **(headers or {})}
        sent = {"content": content, "headers": typed, "params": _without_none(params) or None}
        return await self._send("POST", path, server_wait=server_wait, **sent)

    async def put(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        return await self._send("PUT", path, json=body, headers=headers)

    async def patch(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
        return await self._send("PATCH", path, json=body, headers=headers)

    async def delete(self, path: str) -> Any:
        return await self._send("DELETE", path)

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], *, max_silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Read an endless answer by chunks, which may pause for `max_silence` seconds."""
        timeout = httpx.Timeout(_ANSWER_TIMEOUT, connect=_CONNECT_TIMEOUT, read=max_silence)
        with _translate_errors(self.instance.url):
            async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    await response.aread()
                    raise _problem(response)
                yield response.aiter_bytes()

    async def _send(self, method: str, path: str, *, server_wait: float = 0, **options: Any) -> Any:
        timeout = httpx.Timeout(_ANSWER_TIMEOUT + server_wait, connect=_CONNECT_TIMEOUT)
        with _translate_errors(self.instance.url):
            response = await self._http.request(method, path, timeout=timeout, **options)
        if not response.is_success:
            raise _problem(response)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise UnreachableError(
                f"{self.instance.url} does not answer like Muster: is another program there?"
            ) from error


@asynccontextmanager
async def connect(instance: Instance) -> AsyncIterator[Client]:
    """Open a client for as long as the block lasts."""
    headers = {"User-Agent": "muster-cli", "Accept": "application/json, application/problem+json"}
    if instance.key:
        headers["Authorization"] = f"Bearer {instance.key}"
    async with httpx.AsyncClient(
        base_url=instance.url,
        headers=headers,
        # The proxies of the environment lead to other machines only.
        trust_env=not instance.is_local,
        # Certificates take a while to load.
        verify=not instance.is_local or instance.url.startswith("https:"),
    ) as http:
        yield Client(instance, http)


def wait_path(execution_id: str, correlation_id: str, *rest: str) -> str:
    """Return the path of one wait state; ids may hold any printable character."""
    parts = ["", "api", "wait-states", quote(execution_id, safe=""), quote(correlation_id, safe="")]
    return "/".join([*parts, *rest])


def _without_none(params: QueryParams | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _problem(response: httpx.Response) -> CommandError:
    retry_after = response.headers.get("Retry-After")
    return parse_problem(response.status_code, response.content, retry_after)


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError as error:
        if isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error):
            raise UnreachableError(f"TLS to {url} failed: {error}.") from error
        raise UnreachableError(
            f"Muster is not running at {url}: start it with `muster up`, or name another "
            "address with --url."
        ) from error
    except httpx.TimeoutException as error:
        raise UnreachableError(f"{url} did not answer in time.") from error
    except httpx.InvalidURL as error:
        raise UnreachableError(f"{url} is not an address: {error}.") from error
    except httpx.TransportError as error:
        what = str(error) or type(error).__name__
        raise UnreachableError(f"The connection to {url} broke: {what}.") from error
