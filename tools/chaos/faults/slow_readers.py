"""Fault: stream readers that do not read, read a byte a second, or vanish."""

import asyncio
import contextlib
import functools
import itertools
import re
import socket
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from cli.shell.client import Client, wait_path
from cli.shell.sse import EventDecoder
from tools.chaos.fault import Disruption, Fault, FaultRun, LocalInstance
from tools.chaos.faults.memory import MEGABYTE, watch_memory
from tools.chaos.probe import retry_until_true
from tools.chaos.scenario import SERVICE
from tools.load.http import request_head
from tools.load.sockets import background, raw_socket

MAX_MEMORY_GROWTH = 256 * MEGABYTE
MAX_SLOWDOWN = 5  # times the median without them
ALLOWED_SECONDS = 1.0  # always allowed, however fast it is without them
_GONE_TIMEOUT = 30.0
_LINES, _LINE_BYTES = 150, 32_768  # a log that is too long for the buffers of a socket
_BUFFER = 4_096
_STAY = 0.5  # seconds until a reader vanishes
_STREAMS = re.compile(r'^muster_http_in_flight\{kind="stream"\} (\S+)$', re.MULTILINE)
_CONFIG = {
    "apiCall": {"url": "http://127.0.0.1:9/process"},
    "kafkaEvent": {"topic": "process.completed"},
    "timeout": 900,
}


async def slow_readers(scene: FaultRun) -> None:
    """Crowd the instance with bad readers, and measure the latency of a good one."""
    client, run = scene.client, scene.drill.plan.run
    path = await _long_log(client, run)
    before = await _latencies(client, f"{run}-before", scene.seconds / 3)
    async with watch_memory(scene.local.run_dir) as memory:
        async with _bad_readers(scene, path) as readers:
            scene.note(Disruption(f"{scene.times} bad readers on a long log", scene.elapsed))
            # At first they are readers like all others: the kernel's buffers read for them.
            await _latencies(client, f"{run}-settling", scene.seconds / 2)
            during = await _latencies(client, f"{run}-during", scene.seconds)
        scene.note(
            Disruption(f"they are gone; {readers.vanished:,} vanished before", scene.elapsed)
        )
    await _check_gone(scene)
    scene.check("memory is bounded", *memory.within(MAX_MEMORY_GROWTH))
    after = await _latencies(client, f"{run}-after", scene.seconds / 3)
    _check_latency(scene, during, max(before, after, key=statistics.median))


@dataclass(slots=True)
class _BadReaders:
    """Bad readers of one stream."""

    url: str
    request: bytes
    vanished: int = 0

    async def never_reads(self) -> None:
        async with self._stream():
            await asyncio.Event().wait()

    async def reads_a_byte(self) -> None:
        """Read one byte a second."""
        loop = asyncio.get_running_loop()
        async with self._stream() as connection:
            while True:
                await asyncio.sleep(1)
                if not await loop.sock_recv(connection, 1):
                    return

    async def vanishes(self) -> None:
        """Open the stream, read a little and drop the connection, again and again."""
        loop = asyncio.get_running_loop()
        while True:
            async with self._stream() as connection:
                await loop.sock_recv(connection, _BUFFER)
                await asyncio.sleep(_STAY)
            self.vanished += 1

    def _stream(self) -> contextlib.AbstractAsyncContextManager[socket.socket]:
        return raw_socket(self.url, self.request, read_buffer=_BUFFER)


@contextlib.asynccontextmanager
async def _bad_readers(scene: FaultRun, path: str) -> AsyncIterator[_BadReaders]:
    """Run bad readers of all kinds for as long as the block lasts."""
    local, accept = scene.local, {"Accept": "text/event-stream"}
    host = urlsplit(local.url).netloc
    request = request_head("GET", path, host=host, key=local.key, headers=accept)
    readers = _BadReaders(local.url, request)
    # One that comes back twice a second is a load as well, and loads have a fault of their own.
    kinds = [readers.never_reads] * 5 + [readers.reads_a_byte] * 4 + [readers.vanishes]
    chosen = itertools.islice(itertools.cycle(kinds), scene.times)
    async with background(kind() for kind in chosen) as tasks:
        yield readers
        broken = [task.exception() for task in tasks if task.done()]
    if broken:
        scene.say(f"{len(broken)} bad readers were disconnected: {broken[0]!r}")


async def _long_log(client: Client, run: str) -> str:
    """Make a wait with a log that is too long for every buffer on the way; return its stream."""
    ids = await _register(client, f"{run}-long")
    for number in range(_LINES):
        await _send(client, ids, f"long-{number}", "x" * _LINE_BYTES)
    return wait_path(*ids, "stream")


async def _latencies(client: Client, name: str, seconds: float) -> list[float]:
    """Time a good reader: open a stream, send an event, read it from the stream."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while not took or time.monotonic() < until:
        ids = await _register(client, f"{name}-{len(took)}")
        began = time.monotonic()
        await retry_until_true(functools.partial(_receives_event, client, ids))
        took.append(time.monotonic() - began)
    return took


async def _receives_event(client: Client, ids: tuple[str, str]) -> bool:
    decoder = EventDecoder()
    headers = {"Accept": "text/event-stream"}
    async with client.stream(wait_path(*ids, "stream"), headers, max_silence=30) as chunks:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if event.kind == "received":
                    return True
                await _send(client, ids, "event", "")
    return False


async def _register(client: Client, name: str) -> tuple[str, str]:
    ids = f"chaos-{name}", f"c-{name}"
    body = {"executionId": ids[0], "correlationId": ids[1], "nodeId": "wait", "data": _CONFIG}
    await retry_until_true(lambda: client.post("/api/wait-states", body))
    return ids


async def _send(client: Client, ids: tuple[str, str], event_id: str, text: str) -> None:
    headers = {"X-Execution-Id": ids[0], "X-Correlation-Id": ids[1], "X-Event-Id": event_id}
    path = f"/api/internal/callbacks/{SERVICE}"
    await retry_until_true(lambda: client.post(path, {"text": text}, headers))


def _check_latency(scene: FaultRun, during: list[float], without: list[float]) -> None:
    """Compare with the slower of the samples before and after: other load comes and goes."""
    usual, actual = statistics.median(without), statistics.median(during)
    bound = max(ALLOWED_SECONDS, MAX_SLOWDOWN * usual)
    scene.check(
        "a good reader gets its event as soon as without them",
        actual <= bound,
        f"after {actual * 1000:.0f} ms (p50 of {len(during)}), {usual * 1000:.0f} ms without; the "
        f"bound is {bound * 1000:.0f} ms",
    )


async def _check_gone(scene: FaultRun) -> None:
    """Check in the metrics that the server closes the streams that nobody reads any more."""
    began, receiver = time.monotonic(), scene.drill.receiver
    count = await _count_open_streams(scene.local)
    # The drill's receiver has open streams, too.
    while count > receiver.under_way and time.monotonic() - began < _GONE_TIMEOUT:
        await asyncio.sleep(0.2)
        count = await _count_open_streams(scene.local)
    took = time.monotonic() - began
    counts = f"{count:.0f} open, {receiver.under_way} of them the receiver's, after {took:.1f} s"
    scene.check("their streams are closed", count <= receiver.under_way, counts)


async def _count_open_streams(local: LocalInstance) -> float:
    headers = {"Authorization": f"Bearer {local.key}"}
    async with httpx.AsyncClient(base_url=local.url, headers=headers, trust_env=False) as http:
        page = await http.get("/metrics")
    page.raise_for_status()
    return sum(float(count) for count in _STREAMS.findall(page.text))


SLOW_READERS = (
    Fault(
        name="slow-readers",
        summary="Streams that nobody reads, or slowly, or whose reader has vanished.",
        inject=slow_readers,
        times=100,
        seconds=20.0,
    ),
)
