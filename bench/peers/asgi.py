"""What a service by hand has of a framework: a body, an answer, a start and an end."""

import hmac
import os
from typing import Any

import orjson
import uvicorn


class Service:
    """An ASGI app that asks for a key and takes one kind of request."""

    def __init__(self) -> None:
        self._key = f"Bearer {os.environ['BENCH_KEY']}".encode()

    async def open(self) -> None:
        """Get ready, in the loop that serves."""

    async def close(self) -> None:
        """Let go."""

    async def take(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, Any]:
        """One request; its status and its document."""
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle the start, the end, and requests."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, answer = await self._take_known(dict(scope["headers"]), body)
        content = orjson.dumps(answer)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _take_known(self, headers: dict[bytes, bytes], body: bytes) -> tuple[int, Any]:
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._key):
            return 401, {"verdict": "unknown key"}
        return await self.take(headers, body)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        await self.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})


def run(service: str, port: int, workers: int = 1) -> None:
    """Serve `module:Class` until told to stop, with the fastest parts uvicorn has."""
    uvicorn.run(
        service,
        factory=True,
        host="127.0.0.1",
        port=port,
        workers=workers,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="error",
    )
