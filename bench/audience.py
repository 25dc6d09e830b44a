"""Many readers of one stream and the one who publishes, in a process of their own.

Run as `python -m bench.audience` by `tools.load.process`. All times are taken here, by one clock.
While it runs a reader only looks for the frame that is under way; what each has got is read
closely afterwards.
"""

import asyncio
import contextlib
import re
import time
from typing import cast

import msgspec
import psutil

from tools.load.http import HEAD_END, exchange
from tools.load.process import run_in_process, serve_plan

ACCEPTED = b"HTTP/1.1 200"
OPENING = b"retry: 1000\n\n"
AT_ONCE = 100
_NUMBER = re.compile(rb'^data: .*"number":(\d+),', re.MULTILINE)


def mark(number: int) -> bytes:
    """What tells the frame of a publish from all others."""
    return b'"number":%d,' % number


class Plan(msgspec.Struct, kw_only=True):
    """Whom to read from, and what to publish, one after the other."""

    port: int
    readers: int
    # The request that opens a stream.
    read: bytes
    # Requests; the frame of each bears the mark of its number.
    publishes: list[bytes]
    # In the answer to each of them.
    expect: bytes
    # Seconds from the start after which nothing is published any more.
    within: float
    # The process whose memory counts, and those whose CPU does.
    serving: int
    busy: list[int]


class Report(msgspec.Struct, kw_only=True):
    """What was seen."""

    # Seconds until all streams were open, and the serving process's own bytes then.
    opened: float
    memory: int
    # From a publish until the last reader had it, for as many as there was time for.
    latencies: list[float]
    # Of everybody, and of the readers alone, while it was published.
    cpu_seconds: float
    own_cpu_seconds: float
    # Bytes that a publish brought to each reader.
    frame: float


async def attend(plan: Plan, within: float = 120.0) -> Report:
    """Run a plan in a process of its own."""
    return await run_in_process("bench.audience", plan, Report, within)


def numbers_in(received: bytes) -> list[int]:
    """The publishes that a reader got, in their order."""
    head, _, body = received.partition(HEAD_END)
    assert head.startswith(ACCEPTED), head
    text = unchunked(body) if b"transfer-encoding: chunked" in head.lower() else body
    return [int(number) for number in _NUMBER.findall(text)]


def unchunked(body: bytes) -> bytes:
    """What was sent in chunks, without them; a last one may not be whole."""
    parts, at = [], 0
    while (end := body.find(b"\r\n", at)) >= 0:
        length = int(body[at:end], 16)
        parts.append(body[end + 2 : end + 2 + length])
        at = end + 2 + length + 2
    return b"".join(parts)


def cpu_of(processes: list[int]) -> dict[int, float]:
    """The CPU seconds of each that still runs."""
    found: dict[int, float] = {}
    for pid in processes:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            found[pid] = times.user + times.system
    return found


class Show:
    """One plan under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.readers: list[Reader] = []
        self._open: list[asyncio.BaseTransport] = []
        self.awaited = OPENING
        self._left = 0
        self._seen: asyncio.Future[float] | None = None
        self._over = False

    async def __call__(self) -> Report:
        """Let all come in, publish, and see what each of them got."""
        try:
            return await self._run()
        finally:
            self._over = True
            for transport in self._open:
                transport.close()

    async def _run(self) -> Report:
        began = time.perf_counter()
        for start in range(0, self.plan.readers, AT_ONCE):
            await self._let_in(min(AT_ONCE, self.plan.readers - start))
        opened = time.perf_counter() - began
        memory = psutil.Process(self.plan.serving).memory_full_info().uss
        before, own, size = cpu_of(self.plan.busy), time.process_time(), self._size()
        latencies = await self._publish_all(began + self.plan.within)
        after, own, size = cpu_of(self.plan.busy), time.process_time() - own, self._size() - size
        self._check(len(latencies))
        return Report(
            opened=opened,
            memory=memory,
            latencies=latencies,
            cpu_seconds=own + sum(after[pid] - before.get(pid, after[pid]) for pid in after),
            own_cpu_seconds=own,
            frame=size / max(1, len(latencies)) / self.plan.readers,
        )

    def _check(self, published: int) -> None:
        """Each has got everything, once, in order."""
        expected = list(range(published))
        wrong = [got for r in self.readers if (got := numbers_in(bytes(r.data))) != expected]
        assert not wrong, f"{len(wrong)} readers got something else; the first one got {wrong[0]}"

    def heard(self) -> None:
        """One more reader has what all wait for."""
        self._left -= 1
        if not self._left and self._seen is not None:
            self._seen.set_result(time.perf_counter())

    def broken(self, error: Exception | None) -> None:
        """Nobody may lose a stream."""
        if not self._over and self._seen is not None and not self._seen.done():
            self._seen.set_exception(error or ConnectionError("the server closed a stream"))

    async def _let_in(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        seen = self._await(OPENING, count)
        for _ in range(count):
            transport, reader = await loop.create_connection(
                lambda: Reader(self), "127.0.0.1", self.plan.port
            )
            self._open.append(transport)
            self.readers.append(reader)
        await seen

    async def _publish_all(self, until: float) -> list[float]:
        reading, writing = await asyncio.open_connection("127.0.0.1", self.plan.port)
        latencies: list[float] = []
        try:
            for number, request in enumerate(self.plan.publishes):
                if time.perf_counter() > until:
                    break
                seen = self._await(mark(number), self.plan.readers)
                began = time.perf_counter()
                status, _, body = await exchange(reading, writing, request)
                assert status == 200, (status, body)
                assert self.plan.expect in body, body
                latencies.append(await seen - began)
        finally:
            writing.close()
        return latencies

    def _await(self, awaited: bytes, count: int) -> "asyncio.Future[float]":
        self.awaited, self._left = awaited, count
        self._seen = asyncio.get_running_loop().create_future()
        return self._seen

    def _size(self) -> int:
        return sum(len(reader.data) for reader in self.readers)


class Reader(asyncio.Protocol):
    """One open stream."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._looked_to = 0
        self.data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        cast("asyncio.Transport", transport).write(self._show.plan.read)

    def data_received(self, data: bytes) -> None:
        """Keep it, and look whether it is what everybody waits for."""
        self.data += data
        if not self._looked_to and not self.data.startswith(ACCEPTED):
            self._show.broken(ConnectionError(f"a stream was refused: {bytes(self.data[:400])!r}"))
        awaited = self._show.awaited
        found = self.data.find(awaited, self._looked_to)
        if found >= 0:
            self._looked_to = found + len(awaited)
            self._show.heard()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up."""
        self._show.broken(exc)


async def run(plan: Plan) -> Report:
    return await Show(plan)()


if __name__ == "__main__":
    serve_plan(Plan, run)
