"""The fan-out as one would write it by hand: asyncio, httpx, and nothing is kept.

It takes the same request as ours, asks for a key, calls all resources at once and answers when each
has. Should the process end meanwhile, nobody knows that anything was asked.

httpx as it was fastest: for each call it looks through all connections of its client, so there is a
client for each resource with few of them; with one client for all it took three times the CPU.
Run as `python -m bench.peers.fanout PORT` with BENCH_URL and BENCH_KEY.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import httpx
import orjson
import psutil

from bench.peers import asgi
from bench.peers.process import serving
from bench.wire import Door
from host.ports import free_port

TIMEOUT = 10.0
CONNECTIONS = 8  # for each resource


@asynccontextmanager
async def fanout_service(url: str) -> AsyncIterator[tuple[Door, psutil.Process]]:
    """The service in a process of its own."""
    door = Door(free_port(), uuid.uuid4().hex, "")
    variables = {"BENCH_URL": url, "BENCH_KEY": door.key}
    async with serving("bench.peers.fanout", door.port, **variables) as process:
        yield door, process


class Service(asgi.Service):
    """A client for each resource, made when it is first asked."""

    async def open(self) -> None:
        """Nothing is open yet."""
        self._url = os.environ["BENCH_URL"]
        self._clients: dict[str, httpx.AsyncClient] = {}
        # httpx asks ten times a call whether sniffio is there, and each time Python searches the
        # disk for what is not. This way it is told at once.
        if find_spec("sniffio") is None:
            sys.modules["sniffio"] = None  # type: ignore[assignment]

    async def close(self) -> None:
        """Close what is open."""
        for client in self._clients.values():
            await client.aclose()

    async def take(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, Any]:
        """Ask everybody at once; wait for each."""
        asked = orjson.loads(body)
        names, correlation = asked["resources"], str(uuid.uuid4())
        answers = await asyncio.gather(*(self._ask(n, correlation, asked) for n in names))
        respondents = sum(answer["state"] == "ok" for answer in answers)
        return 200, {
            "id": correlation,
            "correlationId": correlation,
            "status": "completed",
            "respondents": respondents,
            "errors": len(names) - respondents,
            "expected": len(names),
            "context": asked["context"],
            "resources": dict(zip(names, answers, strict=True)),
        }

    async def _ask(self, name: str, correlation: str, asked: Any) -> dict[str, Any]:
        told = {"correlationId": correlation, "resource": name, "context": asked["context"]}
        headers = {
            "Content-Type": "application/json",
            "X-Correlation-Id": correlation,
            "Idempotency-Key": f"{correlation}/{name}",
        }
        try:
            answer = await self._client(name).post(
                self._url, content=orjson.dumps(told), headers=headers
            )
        except httpx.HTTPError as error:
            return {"state": "ERROR", "detail": str(error)}
        if not answer.is_success:
            return {"state": "ERROR", "detail": f"HTTP {answer.status_code}"}
        return {"state": "ok", "data": orjson.loads(answer.content)}

    def _client(self, name: str) -> httpx.AsyncClient:
        client = self._clients.get(name)
        if client is None:
            limits = httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS
            )
            client = httpx.AsyncClient(limits=limits, timeout=TIMEOUT, trust_env=False)
            self._clients[name] = client
        return client


def main() -> None:
    """Serve until told to stop."""
    asgi.run("bench.peers.fanout:Service", int(sys.argv[1]))


if __name__ == "__main__":
    main()
