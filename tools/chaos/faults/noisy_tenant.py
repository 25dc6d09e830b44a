"""A tenant that takes all it can get of one shared resource, in a process of its own.

Runs as `python -m tools.chaos.faults.noisy_tenant` by `tools.load.process` until it is stopped. A
process that measures latencies must not make the noise itself.
"""

import asyncio
import contextlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from itertools import count, cycle
from typing import Any
from urllib.parse import urlsplit

import msgspec

from cli.shell.client import wait_path
from cli.shell.errors import CommandError
from tools.chaos.faults.slow_bodies import SlowClients, slow_clients
from tools.chaos.requests import CALLBACK_PATH, REGISTER_PATH, event_headers, registration
from tools.load.http import HttpConnection, build_request
from tools.load.process import announce_and_wait, load_process, serve_plan
from tools.load.tasks import background

_AGAIN = 0.1  # seconds until a refused caller comes back, and a broken connection is opened anew
_PAD = 400_000
_STREAMS = 1_000
_RAMP_UP, _MAX_RAMP_UP = 0.5, 20.0  # seconds until the noise is at its full level
_BATCH = 500
# Their filters match few rows, so that many are scanned.
_PAGES = ("/api/wait-states?status=failed", "/api/wait-states?executionId=x", "/api/inbox")


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


def noisy_tenant(noise: Noise) -> AbstractAsyncContextManager[list[NoiseResult]]:
    """Make noise for as long as the block lasts; afterwards the list has its result."""
    return load_process("tools.chaos.faults.noisy_tenant", noise, NoiseResult)


class _Caller:
    """Connections that send the next request as soon as the last is answered."""

    def __init__(self, noise: Noise, answers: Counter[int]) -> None:
        self._noise = noise
        self._answers = answers
        self._address = urlsplit(noise.url)

    def post(self, path: str, document: Any, headers: Mapping[str, str] | None = None) -> bytes:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        host, key = self._address.netloc, self._noise.key
        return build_request("POST", path, body, host=host, key=key, headers=headers)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> bytes:
        host, key = self._address.netloc, self._noise.key
        return build_request("GET", path, host=host, key=key, headers=headers)

    async def send_all(self, requests: Iterator[bytes]) -> None:
        """Send requests one after another over one connection, opened again when it breaks."""
        connection = HttpConnection(self._noise.url)
        try:
            for request in requests:
                try:
                    status, *_ = await connection.send(request)
                except (OSError, EOFError, ValueError):
                    status = 0
                self._answers[status] += 1
                if status in (0, 429, 503, 507):
                    await asyncio.sleep(_AGAIN)
        finally:
            connection.close()

    async def stream(self, request: bytes) -> None:
        """Open a stream and read all of it, again and again."""
        connection = HttpConnection(self._noise.url)
        while True:
            with contextlib.suppress(OSError):
                try:
                    reader, writer = await connection.open()
                    writer.write(request)
                    head = await reader.read(65_536)
                    self._answers[int(head[9:12] or b"0")] += 1
                    while await reader.read(65_536):
                        pass
                finally:
                    connection.close()
            await asyncio.sleep(_AGAIN)


def _register_and_call_back(caller: _Caller, pad: int) -> Iterator[bytes]:
    """Yield a registration and its callback, again and again."""
    # Encoded once: the noise is to cost the server more than the sender.
    run, body = secrets.token_hex(4), json.dumps({"pad": "x" * pad}).encode()
    for number in count():
        key = f"noise-{run}-{number}", f"n-{run}-{number}"
        yield caller.post(REGISTER_PATH, registration(key))
        yield caller.post(CALLBACK_PATH, body, event_headers(key))


def _batches(caller: _Caller) -> Iterator[bytes]:
    """Yield requests with many registrations each."""
    while True:
        run = secrets.token_hex(4)
        ids = [f"noise-{run}-{number}" for number in range(_BATCH)]
        yield caller.post(f"{REGISTER_PATH}/batch", {"items": [registration((i, i)) for i in ids]})


async def _streams(noise: Noise, caller: _Caller) -> list[Coroutine[Any, Any, None]]:
    key = secrets.token_hex(4), secrets.token_hex(4)
    connection = HttpConnection(noise.url)
    status, *_ = await connection.send(caller.post(REGISTER_PATH, registration(key)))
    connection.close()
    if not 200 <= status < 300:
        raise CommandError(f"The noisy tenant was answered {status} before it began.")
    request = caller.get(wait_path(*key, "stream"), {"Accept": "text/event-stream"})
    return [caller.stream(request) for _ in range(_STREAMS)]


async def _work(noise: Noise, caller: _Caller) -> list[Coroutine[Any, Any, None]]:
    """Return what to run concurrently."""
    match noise.kind:
        case NoiseKind.REQUESTS:
            return [caller.send_all(_register_and_call_back(caller, 10)) for _ in range(48)]
        case NoiseKind.BODIES:
            return [caller.send_all(_register_and_call_back(caller, _PAD)) for _ in range(16)]
        case NoiseKind.STREAMS:
            return await _streams(noise, caller)
        case NoiseKind.PENDING:
            return [caller.send_all(_batches(caller)) for _ in range(4)]
        case NoiseKind.LISTINGS:
            return [caller.send_all(map(caller.get, cycle(_PAGES))) for _ in range(24)]
        case NoiseKind.SLOW_BODIES:
            return [_send_no_bodies(noise)]


async def _send_no_bodies(noise: Noise) -> None:
    """Announce bodies of a megabyte each and do not send them."""
    kinds = (SlowClients.stops_in_the_body_with_a_key, SlowClients.drips_a_body)
    async with slow_clients(noise.url, noise.key, 120, kinds):
        await asyncio.Event().wait()


async def _wait_for_full_noise(kind: NoiseKind, answers: Counter[int]) -> None:
    """Wait until the noise is at its full level: the ramp-up would be measured as well."""
    enough = _STREAMS if kind is NoiseKind.STREAMS else 1
    deadline = time.monotonic() + _MAX_RAMP_UP
    await asyncio.sleep(_RAMP_UP)
    while kind is not NoiseKind.SLOW_BODIES and answers.total() < enough:
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(_RAMP_UP / 10)


async def _run(noise: Noise) -> NoiseResult:
    answers: Counter[int] = Counter()
    work = await _work(noise, _Caller(noise, answers))
    async with background(*work):
        await _wait_for_full_noise(noise.kind, answers)
        await announce_and_wait()
    return NoiseResult(answers=dict(answers))


if __name__ == "__main__":
    serve_plan(Noise, _run, announces_itself=True)
