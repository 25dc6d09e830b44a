"""Fault: stream readers that do not read, read a byte a second, or vanish."""

import asyncio
import contextlib
import functools
import itertools
import re
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from cli.shell.client import Client, wait_path
from cli.shell.sse import EventDecoder
from tools.chaos.fault import FaultRun, LocalInstance, fault
from tools.chaos.faults.processes import MEGABYTE, bounded_memory
from tools.chaos.latency import check_bystander, sample
from tools.chaos.probe import register_new, retry_until_true
from tools.chaos.requests import API_WAIT, TOPIC, CorrelationKey, call_back
from tools.load.http import raw_socket, request_head
from tools.load.tasks import background

MAX_MEMORY_GROWTH = 256 * MEGABYTE
MAX_SLOWDOWN = 5  # times the median without them
ALLOWED_SECONDS = 1.0  # always allowed, however fast it is without them
_GONE_TIMEOUT = 30.0
_LINES, _LINE_BYTES = 150, 32_768  # a log that is too long for the buffers of a socket
_BUFFER = 4_096
_STAY = 0.5  # seconds until a reader vanishes
_STREAMS = re.compile(r'^muster_http_in_flight\{kind="stream"\} (\S+)$', re.MULTILINE)
_WAIT = {**API_WAIT, "kafkaEvent": {"topic": TOPIC}}


@fault(
    "slow-readers",
    "Streams that nobody reads, or slowly, or whose reader has vanished.",
    times=100,
)
async def slow_readers(run: FaultRun) -> None:
    """Crowd the instance with bad readers, and measure the latency of a good one."""
    path = await _long_log(run.client)
    read = functools.partial(_read_own_event, run.client)
    before = await sample(read, run.seconds / 3)
    async with bounded_memory(run, MAX_MEMORY_GROWTH):
        async with _bad_readers(run, path) as readers:
            run.note(f"{run.times} bad readers on a long log")
            # At first they are readers like all others: the kernel's buffers read for them.
            await sample(read, run.seconds / 2)
            during = await sample(read, run.seconds)
        run.note(f"they are gone; {readers.vanished:,} vanished before")
    await _check_gone(run)
    after = await sample(read, run.seconds / 3)
    check_bystander(
        run,
        during,
        before,
        after,
        who="good readers",
        max_slowdown=MAX_SLOWDOWN,
        allowed=ALLOWED_SECONDS,
    )


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
async def _bad_readers(run: FaultRun, path: str) -> AsyncIterator[_BadReaders]:
    """Run bad readers of all kinds for as long as the block lasts."""
    local, accept = run.local, {"Accept": "text/event-stream"}
    host = urlsplit(local.url).netloc
    request = request_head("GET", path, host=host, key=local.key, headers=accept)
    readers = _BadReaders(local.url, request)
    # One that comes back twice a second is a load as well, and loads have a fault of their own.
    kinds = [readers.never_reads] * 5 + [readers.reads_a_byte] * 4 + [readers.vanishes]
    chosen = itertools.islice(itertools.cycle(kinds), run.times)
    async with background(*(kind() for kind in chosen)) as tasks:
        yield readers
        broken = [task.exception() for task in tasks if task.done()]
    if broken:
        run.say(f"{len(broken)} bad readers were disconnected: {broken[0]!r}")


async def _long_log(client: Client) -> str:
    """Make a wait with a log that is too long for every buffer on the way; return its stream."""
    key = await _register(client)
    for number in range(_LINES):
        await _send(client, key, f"long-{number}", "x" * _LINE_BYTES)
    return wait_path(*key, "stream")


async def _read_own_event(client: Client) -> None:
    """Be a good reader: open a stream, send an event, read it from the stream."""
    key = await _register(client)
    await retry_until_true(functools.partial(_receives_event, client, key))


async def _receives_event(client: Client, key: CorrelationKey) -> bool:
    decoder = EventDecoder()
    headers = {"Accept": "text/event-stream"}
    async with client.stream(wait_path(*key, "stream"), headers, max_silence=30) as chunks:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if event.kind == "received":
                    return True
                await _send(client, key, "event", "")
    return False


async def _register(client: Client) -> CorrelationKey:
    return await retry_until_true(lambda: register_new(client, _WAIT))


async def _send(client: Client, key: CorrelationKey, event_id: str, text: str) -> None:
    await retry_until_true(lambda: call_back(client, key, event_id, {"text": text}))


async def _check_gone(run: FaultRun) -> None:
    """Check in the metrics that the server closes the streams that nobody reads any more."""
    began, receiver = time.monotonic(), run.drill.receiver
    count = await _count_open_streams(run.local)
    # The drill's receiver has open streams, too.
    while count > receiver.under_way and time.monotonic() - began < _GONE_TIMEOUT:
        await asyncio.sleep(0.2)
        count = await _count_open_streams(run.local)
    took = time.monotonic() - began
    counts = f"{count:.0f} open, {receiver.under_way} of them the receiver's, after {took:.1f} s"
    run.check("their streams are closed", count <= receiver.under_way, counts)


async def _count_open_streams(local: LocalInstance) -> float:
    headers = {"Authorization": f"Bearer {local.key}"}
    async with httpx.AsyncClient(base_url=local.url, headers=headers, trust_env=False) as http:
        page = await http.get("/metrics")
    page.raise_for_status()
    return sum(float(count) for count in _STREAMS.findall(page.text))
