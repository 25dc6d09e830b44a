"""A tenant that takes all it can get of one shared thing.

Runs as `python -m tools.chaos.faults.noisy_tenant`.

In a process of its own, which is told what to do on stdin and goes on until stdin ends: whoever
measures what others feel must not be the one who makes the noise.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec
import uvloop

from cli.shell.errors import CommandError
from tools.chaos.fault import LocalInstance
from tools.chaos.faults.flood import split_response
from tools.chaos.faults.slow_bodies import SlowClients, slow_clients
from tools.chaos.scenario import SERVICE

_AGAIN = 0.1  # seconds until a refused caller comes back, and a broken connection is opened anew
_READY, _ENDS_WITHIN = 30.0, 10.0
_PAD = 400_000
_STREAMS = 1_000
_SETTLE, _SWING = 0.5, 20.0  # seconds until the noise is in full swing: usually, and at most
_BATCH = 500
_WAIT = {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": 900}


class NoiseKind(StrEnum):
    """What it takes."""

    REQUESTS = "requests"
    BODIES = "bodies"
    SLOW_BODIES = "slow-bodies"
    STREAMS = "streams"
    PENDING = "pending"
    LISTINGS = "listings"


class Noise(msgspec.Struct, kw_only=True):
    """What to do to whom."""

    url: str
    key: str
    kind: NoiseKind


class NoiseResult(msgspec.Struct, kw_only=True):
    """What came of it: answers by status, 0 for connections that broke."""

    answers: dict[int, int]

    @property
    def accepted(self) -> int:
        """Requests that were carried out."""
        return sum(count for status, count in self.answers.items() if 200 <= status < 300)


@contextlib.asynccontextmanager
async def noisy_tenant(noise: Noise) -> AsyncIterator[list[NoiseResult]]:
    """Make noise for as long as the block lasts; afterwards the list has what was heard."""
    heard: list[NoiseResult] = []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tools.chaos.faults.noisy_tenant",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    to, back = (
        cast("asyncio.StreamWriter", process.stdin),
        cast("asyncio.StreamReader", process.stdout),
    )
    try:
        to.write(msgspec.json.encode(noise) + b"\n")
        async with asyncio.timeout(_READY):
            if not await back.readline():
                raise CommandError("The noisy tenant broke off: its last words are above.")
        yield heard
        to.close()
        async with asyncio.timeout(_ENDS_WITHIN):
            heard.append(msgspec.json.decode(await back.readline(), type=NoiseResult))
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class _Caller:
    """Connections that send the next request as soon as the last is answered."""

    def __init__(self, noise: Noise, answers: Counter[int]) -> None:
        self._noise = noise
        self._answers = answers
        self._address = urlsplit(noise.url)

    def request(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self._address.netloc}",
            f"Authorization: Bearer {self._noise.key}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def go_on(self, requests: Iterator[bytes]) -> None:
        """Send them one after another over one connection, opened again when it breaks."""
        while True:
            try:
                await self._over_one(requests)
            except (OSError, EOFError, ValueError):
                self._answers[0] += 1
            await asyncio.sleep(_AGAIN)

    async def hold(self, request: bytes) -> None:
        """Ask for a stream, and read whatever comes."""
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await self._open()
                try:
                    writer.write(request)
                    head = await reader.read(65_536)
                    self._answers[int(head[9:12] or b"0")] += 1
                    while await reader.read(65_536):
                        pass
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_AGAIN)

    async def ask(self, request: bytes) -> None:
        """One request that has to succeed."""
        reader, writer = await self._open()
        try:
            status = await _answer(reader, writer, request)
        finally:
            writer.close()
        if not 200 <= status < 300:
            raise CommandError(f"The noisy tenant was answered {status} before it began.")

    async def _over_one(self, requests: Iterator[bytes]) -> None:
        reader, writer = await self._open()
        try:
            for request in requests:
                status = await _answer(reader, writer, request)
                self._answers[status] += 1
                if status in (429, 503, 507):
                    await asyncio.sleep(_AGAIN)
        finally:
            writer.transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._address
        return await asyncio.open_connection(str(address.hostname), address.port or 80)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> int:
    writer.write(request)
    data = b""
    while (answer := split_response(data)) is None:
        piece = await reader.read(65_536)
        if not piece:
            raise EOFError
        data += piece
    return answer[0]


def _register_and_call_back(caller: _Caller, pad: int) -> Iterator[bytes]:
    """A wait and its callback, again and again."""
    run = secrets.token_hex(4)
    body = json.dumps({"pad": "x" * pad}).encode()
    for number in itertools.count():
        ids = {"executionId": f"noise-{run}-{number}", "correlationId": f"n-{run}-{number}"}
        document = json.dumps({**ids, "nodeId": "wait", "data": _WAIT}).encode()
        yield caller.request("POST", "/api/wait-states", document)
        yield caller.request(
            "POST",
            f"/api/internal/callbacks/{SERVICE}",
            body,
            f"X-Execution-Id: {ids['executionId']}",
            f"X-Correlation-Id: {ids['correlationId']}",
        )


def _batches(caller: _Caller) -> Iterator[bytes]:
    """Many registrations in each request."""
    for _ in itertools.count():
        run = secrets.token_hex(4)
        ids = [f"noise-{run}-{number}" for number in range(_BATCH)]
        items = [{"executionId": one, "correlationId": one, "data": _WAIT} for one in ids]
        yield caller.request(
            "POST", "/api/wait-states/batch", json.dumps({"items": items}).encode()
        )


def _pages(caller: _Caller) -> Iterator[bytes]:
    """Listings with filters that find little, so that much is looked at."""
    paths = ("/api/wait-states?status=failed", "/api/wait-states?executionId=x", "/api/inbox")
    for path in itertools.cycle(paths):
        yield caller.request("GET", path)


async def _streams(caller: _Caller) -> list[Awaitable[None]]:
    run = secrets.token_hex(4)
    document = {"executionId": run, "correlationId": run, "nodeId": "wait", "data": _WAIT}
    await caller.ask(caller.request("POST", "/api/wait-states", json.dumps(document).encode()))
    request = caller.request(
        "GET", f"/api/wait-states/{run}/{run}/stream", b"", "Accept: text/event-stream"
    )
    return [caller.hold(request) for _ in range(_STREAMS)]


async def _work(noise: Noise, caller: _Caller) -> list[Awaitable[None]]:
    """What is to be done at once."""
    match noise.kind:
        case NoiseKind.REQUESTS:
            return [caller.go_on(_register_and_call_back(caller, 10)) for _ in range(48)]
        case NoiseKind.BODIES:
            return [caller.go_on(_register_and_call_back(caller, _PAD)) for _ in range(16)]
        case NoiseKind.STREAMS:
            return await _streams(caller)
        case NoiseKind.PENDING:
            return [caller.go_on(_batches(caller)) for _ in range(4)]
        case NoiseKind.LISTINGS:
            return [caller.go_on(_pages(caller)) for _ in range(24)]
        case NoiseKind.SLOW_BODIES:
            return [_hold_bodies(noise)]


async def _hold_bodies(noise: Noise) -> None:
    """Bodies of a megabyte each that are announced and do not come."""
    nowhere = Path()
    local = LocalInstance(noise.url, noise.key, "", nowhere, nowhere, embedded=False)
    kinds = (SlowClients.stops_in_the_body_with_a_key, SlowClients.drips_a_body)
    async with slow_clients(local, 120, kinds):
        await asyncio.Event().wait()


async def _in_full_swing(kind: NoiseKind, answers: Counter[int]) -> None:
    """Return once the noise is what it will be: its beginning is another noise."""
    enough = _STREAMS if kind is NoiseKind.STREAMS else 1
    deadline = time.monotonic() + _SWING
    await asyncio.sleep(_SETTLE)
    while kind is not NoiseKind.SLOW_BODIES and answers.total() < enough:
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(_SETTLE / 10)


async def _run(noise: Noise, until: Callable[[], Awaitable[object]]) -> NoiseResult:
    answers: Counter[int] = Counter()
    work = await _work(noise, _Caller(noise, answers))
    tasks = [asyncio.ensure_future(one) for one in work]
    await _in_full_swing(noise.kind, answers)
    print(flush=True)
    await until()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return NoiseResult(answers=dict(answers))


def main() -> None:
    """Read what to do, do it until there is nothing more to read, tell what was heard."""
    noise = msgspec.json.decode(sys.stdin.buffer.readline(), type=Noise)

    async def run() -> NoiseResult:
        return await _run(noise, lambda: asyncio.to_thread(sys.stdin.buffer.read))

    print(msgspec.json.encode(uvloop.run(run())).decode(), flush=True)


if __name__ == "__main__":
    main()
