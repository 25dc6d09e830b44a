"""Callbacks as they go over the wire, made before the clock starts."""

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from bench.http_load import Plan, Report, fire
from bench.load import API_BODY
from tools.load.http import build_request, exchange

CALLBACK = "/api/internal/callbacks/external-service"
# It waits for the callback only, so that a callback completes it.
WAIT = {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": 3600}
Ids = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Door:
    """Where a service takes callbacks, with which key, and where it keeps them."""

    port: int
    key: str
    dsn: str

    def post(self, path: str, body: bytes, ids: Ids | None = None) -> bytes:
        """One request that brings something."""
        return self.request("POST", path, body, ids)

    def request(self, method: str, path: str, body: bytes = b"", ids: Ids | None = None) -> bytes:
        """One request."""
        headers = {"X-Execution-Id": ids[0], "X-Correlation-Id": ids[1]} if ids else None
        host = f"127.0.0.1:{self.port}"
        return build_request(method, path, body, host=host, key=self.key, headers=headers)

    def callbacks(self, ids: Sequence[Ids], path: str = CALLBACK) -> list[bytes]:
        """One request for each pair of ids."""
        return [self.post(path, API_BODY, pair) for pair in ids]

    def callback_batches(self, ids: Sequence[Ids], size: int) -> list[bytes]:
        """Requests with `size` callbacks each."""
        body = orjson.loads(API_BODY)
        items = [{"executionId": e, "correlationId": c, "body": body} for e, c in ids]
        return self._batched(f"{CALLBACK}/batch", items, size)

    async def register(self, ids: Sequence[Ids]) -> None:
        """Open a wait for each pair, through the door as well."""
        items = [{"executionId": e, "correlationId": c, "data": WAIT} for e, c in ids]
        requests = self._batched("/api/wait-states/batch", items, 500)
        await answered(
            Plan(port=self.port, requests=requests, connections=4, expect=b'"created":true'),
            len(ids),
        )

    def _batched(self, path: str, items: list[dict[str, Any]], size: int) -> list[bytes]:
        parts = (items[start : start + size] for start in range(0, len(items), size))
        return [self.post(path, orjson.dumps({"items": part})) for part in parts]


def new_ids(count: int) -> list[Ids]:
    """Pairs that nobody has used."""
    return [(uuid.uuid4().hex, uuid.uuid4().hex) for _ in range(count)]


async def answered(plan: Plan, expected: int) -> Report:
    """Run a plan of which every answer has to be the right one."""
    report = await fire(plan)
    found = (report.good, report.expected, report.first_bad)
    assert (report.good, report.expected) == (len(plan.requests), expected), found
    return report


async def told(port: int, request: bytes) -> Any:
    """The document that one request is answered with; it has to be a good answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(30.0):
            status, _, body = await exchange(reader, writer, request)
    finally:
        writer.close()
    assert 200 <= status < 300, (status, body)
    return orjson.loads(body or b"null")


async def listening(port: int, within: float = 30.0) -> None:
    """Wait until somebody answers at a port."""
    deadline = time.monotonic() + within
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on {port}"
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
