"""A tenant that takes all it can get of one shared resource, in a process of its own.

Runs as `python -m tools.chaos.faults.noisy_tenant`: reads what to do from stdin and goes on until
stdin ends. A process that measures latencies must not make the noise itself.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from enum import StrEnum
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import uvloop

from cli.shell.errors import CommandError
from tools.chaos.faults.slow_bodies import SlowClients, slow_clients
from tools.chaos.scenario import SERVICE
from tools.load.http import build_request, exchange
from tools.load.sockets import background

_AGAIN = 0.1  # seconds until a refused caller comes back, and a broken connection is opened anew
_READY, _ENDS_WITHIN = 30.0, 10.0
_PAD = 400_000
_STREAMS = 1_000
_SETTLE, _SWING = 0.5, 20.0  # seconds until the noise is in full swing: usually, and at most
_BATCH = 500
_WAIT = {"apiCall": {"url": "http://127.0.0.1:9/process"}, "timeout": 900}


class NoiseKind(StrEnum):
    """The shared resource that the noise uses up."""

    REQUESTS = "requests"
    BODIES = "bodies"
    SLOW_BODIES = "slow-bodies"
    STREAMS = "streams"
    PENDING = "pending"
    LISTINGS = "listings"


class Noise(msgspec.Struct, kw_only=True):
    """What to do, and to which instance."""

    url: str
    key: str
    kind: NoiseKind


class NoiseResult(msgspec.Struct, kw_only=True):
    """The answers by status; 0 counts broken connections."""

    answers: dict[int, int]

    @property
    def accepted(self) -> int:
        return sum(count for status, count in self.answers.items() if 200 <= status < 300)


@contextlib.asynccontextmanager
async def noisy_tenant(noise: Noise) -> AsyncIterator[list[NoiseResult]]:
    """Make noise for as long as the block lasts; afterwards the list has its result."""
    results: list[NoiseResult] = []
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
                raise CommandError("The noisy tenant stopped early: see its error above.")
        yield results
        to.close()
        async with asyncio.timeout(_ENDS_WITHIN):
            results.append(msgspec.json.decode(await back.readline(), type=NoiseResult))
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
        named = dict(line.split(": ", 1) for line in headers)
        host, key = self._address.netloc, self._noise.key
        return build_request(method, path, body, host=host, key=key, headers=named)

    async def go_on(self, requests: Iterator[bytes]) -> None:
        """Send them one after another over one connection, opened again when it breaks."""
        while True:
            try:
                await self._over_one(requests)
            except (OSError, EOFError, ValueError):
                self._answers[0] += 1
            await asyncio.sleep(_AGAIN)

    async def hold(self, request: bytes) -> None:
        """Open a stream and read all of it."""
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
        """Send one request that has to succeed."""
        reader, writer = await self._open()
        try:
            status, *_ = await exchange(reader, writer, request)
        finally:
            writer.close()
        if not 200 <= status < 300:
            raise CommandError(f"The noisy tenant was answered {status} before it began.")

    async def _over_one(self, requests: Iterator[bytes]) -> None:
        reader, writer = await self._open()
        try:
            for request in requests:
                status, *_ = await exchange(reader, writer, request)
                self._answers[status] += 1
                if status in (429, 503, 507):
                    await asyncio.sleep(_AGAIN)
        finally:
            writer.transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._address
        return await asyncio.open_connection(str(address.hostname), address.port or 80)


def _register_and_call_back(caller: _Caller, pad: int) -> Iterator[bytes]:
    """Yield a registration and its callback, again and again."""
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
    """Yield requests with many registrations each."""
    for _ in itertools.count():
        run = secrets.token_hex(4)
        ids = [f"noise-{run}-{number}" for number in range(_BATCH)]
        items = [{"executionId": one, "correlationId": one, "data": _WAIT} for one in ids]
        yield caller.request(
            "POST", "/api/wait-states/batch", json.dumps({"items": items}).encode()
        )


def _pages(caller: _Caller) -> Iterator[bytes]:
    """Yield listings whose filters match few rows, so that many are scanned."""
    paths = ("/api/wait-states?status=failed", "/api/wait-states?executionId=x", "/api/inbox")
    for path in itertools.cycle(paths):
        yield caller.request("GET", path)


async def _streams(caller: _Caller) -> list[Coroutine[Any, Any, None]]:
    run = secrets.token_hex(4)
    document = {"executionId": run, "correlationId": run, "nodeId": "wait", "data": _WAIT}
    await caller.ask(caller.request("POST", "/api/wait-states", json.dumps(document).encode()))
    request = caller.request(
        "GET", f"/api/wait-states/{run}/{run}/stream", b"", "Accept: text/event-stream"
    )
    return [caller.hold(request) for _ in range(_STREAMS)]


async def _work(noise: Noise, caller: _Caller) -> list[Coroutine[Any, Any, None]]:
    """Return what to run concurrently."""
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
    """Announce bodies of a megabyte each and do not send them."""
    kinds = (SlowClients.stops_in_the_body_with_a_key, SlowClients.drips_a_body)
    async with slow_clients(noise.url, noise.key, 120, kinds):
        await asyncio.Event().wait()


async def _wait_for_full_noise(kind: NoiseKind, answers: Counter[int]) -> None:
    """Wait until the noise is at its full level: the ramp-up would be measured as well."""
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
    async with background(work):
        await _wait_for_full_noise(noise.kind, answers)
        print(flush=True)
        await until()
    return NoiseResult(answers=dict(answers))


def main() -> None:
    noise = msgspec.json.decode(sys.stdin.buffer.readline(), type=Noise)

    async def run() -> NoiseResult:
        return await _run(noise, lambda: asyncio.to_thread(sys.stdin.buffer.read))

    print(msgspec.json.encode(uvloop.run(run())).decode(), flush=True)


if __name__ == "__main__":
    main()
