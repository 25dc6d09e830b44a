"""Readers that do not read, read a byte a second, or vanish: nobody else may notice."""

import asyncio
import contextlib
import functools
import itertools
import re
import socket
import statistics
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from cli.shell.client import Client, wait_path
from cli.shell.sse import EventDecoder
from tools.chaos.fault import Disruption, Fault, FaultRun, LocalInstance
from tools.chaos.faults.memory import MEGABYTE, watch_memory
from tools.chaos.probe import retry_until_true
from tools.chaos.scenario import SERVICE

MAX_MEMORY_GROWTH = 256 * MEGABYTE
MAX_SLOWDOWN = 5  # times the median without them
ALLOWED_SECONDS = 1.0  # seconds, however fast it is without
_GONE_WITHIN = 30.0
_LINES, _LINE_BYTES = 150, 32_768  # a log that no socket's buffers can swallow
_BUFFER = 4_096
_STAY = 0.5  # seconds until a reader vanishes
_HANG_UP = struct.pack("ii", 1, 0)  # SO_LINGER: close by a reset, as a pulled cable does
_STREAMS = re.compile(r'^muster_http_in_flight\{kind="stream"\} (\S+)$', re.MULTILINE)
_CONFIG = {
    "apiCall": {"url": "http://127.0.0.1:9/process"},
    "kafkaEvent": {"topic": "process.completed"},
    "timeout": 900,
}


async def slow_readers(scene: FaultRun) -> None:
    """Crowd the instance with bad readers, and watch what a good one feels."""
    client, run = scene.client, scene.drill.plan.run
    path = await _long_log(client, run)
    before = await _latencies(client, f"{run}-before", scene.seconds / 3)
    async with watch_memory(scene.local.run_dir) as memory:
        async with _crowd(scene, path) as crowd:
            scene.note(Disruption(f"{scene.times} bad readers on a long log", scene.elapsed))
            # At first they are readers like all others: the kernel's buffers read for them.
            await _latencies(client, f"{run}-settling", scene.seconds / 2)
            during = await _latencies(client, f"{run}-during", scene.seconds)
        scene.note(Disruption(f"they are gone; {crowd.vanished:,} had vanished", scene.elapsed))
    await _check_gone(scene)
    scene.check("memory is bounded", *memory.within(MAX_MEMORY_GROWTH))
    after = await _latencies(client, f"{run}-after", scene.seconds / 3)
    _check_latency(scene, during, max(before, after, key=statistics.median))


@dataclass(slots=True)
class _Crowd:
    """Bad readers of one stream."""

    local: LocalInstance
    path: str
    vanished: int = 0
    _sockets: set[socket.socket] = field(default_factory=set)

    async def never_reads(self) -> None:
        """Asks, and looks away."""
        await self._ask()
        await asyncio.Event().wait()

    async def reads_a_byte(self) -> None:
        """One a second."""
        loop, wire = asyncio.get_running_loop(), await self._ask()
        while True:
            await asyncio.sleep(1)
            if not await loop.sock_recv(wire, 1):
                return

    async def vanishes(self) -> None:
        """Asks, stays for a moment, is gone without a word; again and again."""
        loop = asyncio.get_running_loop()
        while True:
            wire = await self._ask()
            await loop.sock_recv(wire, _BUFFER)
            await asyncio.sleep(_STAY)
            self._drop(wire)
            self.vanished += 1

    def close(self) -> None:
        """All of them are gone."""
        for wire in list(self._sockets):
            self._drop(wire)

    async def _ask(self) -> socket.socket:
        address = urlsplit(self.local.url)
        wire = socket.socket()
        self._sockets.add(wire)
        wire.setblocking(False)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(wire, (str(address.hostname), address.port or 80))
        lines = [
            f"GET {self.path} HTTP/1.1",
            f"Host: {address.netloc}",
            f"Authorization: Bearer {self.local.key}",
            "Accept: text/event-stream",
        ]
        await loop.sock_sendall(wire, "\r\n".join([*lines, "", ""]).encode())
        return wire

    def _drop(self, wire: socket.socket) -> None:
        self._sockets.discard(wire)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _HANG_UP)
        wire.close()


@contextlib.asynccontextmanager
async def _crowd(scene: FaultRun, path: str) -> AsyncIterator[_Crowd]:
    """Bad readers of all kinds for as long as the block lasts."""
    crowd = _Crowd(scene.local, path)
    # One that comes back twice a second is a load as well, and loads have a fault of their own.
    kinds = [crowd.never_reads] * 5 + [crowd.reads_a_byte] * 4 + [crowd.vanishes]
    readers = [
        asyncio.ensure_future(kind())
        for kind in itertools.islice(itertools.cycle(kinds), scene.times)
    ]
    try:
        yield crowd
    finally:
        broken = [task.exception() for task in readers if task.done()]
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        crowd.close()
        if broken:
            scene.say(f"{len(broken)} bad readers were shut out: {broken[0]!r}")


async def _long_log(client: Client, run: str) -> str:
    """The stream of a wait whose log is too long for any buffer between us and it."""
    ids = await _register(client, f"{run}-long")
    for number in range(_LINES):
        await _send(client, ids, f"long-{number}", "x" * _LINE_BYTES)
    return wait_path(*ids, "stream")


async def _latencies(client: Client, name: str, seconds: float) -> list[float]:
    """How long a good reader takes to open a stream, cause an event, and have its news."""
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
                await _send(client, ids, "news", "")
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
    """A machine that others use may slow down meanwhile: so it is asked before and after."""
    usual, felt = statistics.median(without), statistics.median(during)
    bound = max(ALLOWED_SECONDS, MAX_SLOWDOWN * usual)
    scene.check(
        "a good reader has its news as soon as without them",
        felt <= bound,
        f"after {felt * 1000:.0f} ms (p50 of {len(during)}), {usual * 1000:.0f} ms without; the "
        f"bound is {bound * 1000:.0f} ms",
    )


async def _check_gone(scene: FaultRun) -> None:
    """The server must let go of what nobody reads any more: ask it how many streams it holds."""
    began, receiver = time.monotonic(), scene.drill.receiver
    held = await _count_open_streams(scene.local)
    # The account's own receiver holds some, too.
    while held > receiver.under_way and time.monotonic() - began < _GONE_WITHIN:
        await asyncio.sleep(0.2)
        held = await _count_open_streams(scene.local)
    took = time.monotonic() - began
    seen = (
        f"{held:.0f} held, {receiver.under_way} read by the account, {took:.1f} s after they left"
    )
    scene.check("their streams are given up", held <= receiver.under_way, seen)


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
