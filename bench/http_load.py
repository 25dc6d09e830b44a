"""An HTTP/1.1 load in a process of its own: bytes made beforehand, one request per connection.

Run as `python -m bench.http_load`: a `Plan` comes in on stdin, a `Report` goes out on stdout. It
parses as little as it can, so that it measures the server and not itself.
"""

import asyncio
import sys
import time
from collections import deque
from typing import cast

import msgspec
import uvloop

HEAD_END = b"\r\n\r\n"
# The loop's timers count whole milliseconds: a shorter wait would be spent spinning, on cores that
# the server needs. What is sent late by that counts as its latency.
TICK = 0.001


class Plan(msgspec.Struct, kw_only=True):
    """What to send where. Without a schedule each connection sends as soon as it is answered."""

    port: int
    requests: list[bytes]
    connections: int
    # Counted in the answers' bodies; how often it has to be there is the caller's business.
    expect: bytes
    # Seconds after the start at which each request is due, whatever became of those before it.
    schedule: list[float] = []


class Report(msgspec.Struct, kw_only=True):
    """What came back."""

    seconds: float
    cpu_seconds: float
    good: int
    expected: int
    first_bad: str
    # From the moment a request was due (with a schedule) or sent (without), in its order.
    latencies: list[float]
    # How long after it was due each request was sent: a part of its latency.
    lags: list[float]

    @property
    def rate(self) -> float:
        """Good answers per second."""
        return self.good / self.seconds


async def fire(plan: Plan, within: float = 600.0) -> Report:
    """Run a plan in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.http_load",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(within):
            out, _ = await process.communicate(msgspec.msgpack.encode(plan))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"the load ended with {process.returncode}"
    return msgspec.msgpack.decode(out, type=Report)


def split_answer(data: bytes) -> tuple[int, bytes] | None:
    """Status and body once the whole answer is there; it must say its length."""
    end = data.find(HEAD_END)
    if end < 0:
        return None
    head = data[:end].lower()
    start = end + len(HEAD_END)
    at = head.find(b"\r\ncontent-length:")
    if at < 0 and data[9:12] == b"204":
        return 204, b""
    assert at >= 0, f"an answer without a length: {head!r}"
    length = int(head[at + 17 :].split(b"\r\n", 1)[0])
    if len(data) < start + length:
        return None
    return int(data[9:12]), data[start : start + length]


class Run:
    """One plan under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = time.perf_counter
        self.began = 0.0
        self.due: deque[int] = deque()
        # Longest idle first, so that none is idle for so long that a server gives it up.
        self.idle: deque[Lane] = deque()
        self.sent_at = [0.0] * len(plan.requests)
        self.done_at = [0.0] * len(plan.requests)
        self.answers: list[tuple[int, bytes]] = []
        self.next = 0
        self.over = asyncio.get_running_loop().create_future()

    async def __call__(self) -> Report:
        """Open all connections, then start the clock."""
        loop = asyncio.get_running_loop()
        for _ in range(self.plan.connections):
            _, lane = await loop.create_connection(lambda: Lane(self), "127.0.0.1", self.plan.port)
            self.idle.append(lane)
        cpu, self.began = time.process_time(), self.clock()
        if self.plan.schedule:
            self._release()
        else:
            self._take(len(self.plan.requests))
        await self.over
        seconds, cpu = self.clock() - self.began, time.process_time() - cpu
        return self._report(seconds, cpu)

    def answered(self, lane: "Lane", answer: tuple[int, bytes]) -> None:
        """Note the answer and give the connection its next request."""
        self.done_at[lane.number] = self.clock()
        self.answers.append(answer)
        if self.due:
            self._send(lane, self.due.popleft())
        else:
            self.idle.append(lane)
            if len(self.answers) == len(self.plan.requests):
                self.over.set_result(None)

    def broken(self, error: Exception | None) -> None:
        """A server that hangs up has failed the run."""
        if not self.over.done():
            self.over.set_exception(error or ConnectionError("the server closed a connection"))

    def _release(self) -> None:
        """Take all that is due by now, and come back for the next."""
        schedule = self.plan.schedule
        now = self.clock() - self.began
        count = self.next
        while count < len(schedule) and schedule[count] <= now:
            count += 1
        self._take(count - self.next)
        if self.next < len(schedule):
            wait = schedule[self.next] - (self.clock() - self.began)
            asyncio.get_running_loop().call_later(max(TICK, wait), self._release)

    def _take(self, count: int) -> None:
        self.due.extend(range(self.next, self.next + count))
        self.next += count
        while self.due and self.idle:
            self._send(self.idle.popleft(), self.due.popleft())

    def _send(self, lane: "Lane", number: int) -> None:
        lane.number = number
        self.sent_at[number] = self.clock()
        lane.transport.write(self.plan.requests[number])

    def _report(self, seconds: float, cpu_seconds: float) -> Report:
        began = [self.began + at for at in self.plan.schedule] or self.sent_at
        bad = [answer for answer in self.answers if not 200 <= answer[0] < 300]
        return Report(
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            good=len(self.answers) - len(bad),
            expected=sum(body.count(self.plan.expect) for _, body in self.answers),
            first_bad=f"{bad[0][0]} {bad[0][1][:300].decode('utf-8', 'replace')}" if bad else "",
            latencies=[done - at for done, at in zip(self.done_at, began, strict=True)],
            lags=[sent - at for sent, at in zip(self.sent_at, began, strict=True)],
        )


class Lane(asyncio.Protocol):
    """A connection with at most one request under way."""

    transport: asyncio.Transport

    def __init__(self, run: Run) -> None:
        self._run = run
        self._data = b""
        self.number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Gather until the answer is whole."""
        self._data = self._data + data if self._data else data
        answer = split_answer(self._data)
        if answer is not None:
            self._data = b""
            self._run.answered(self, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The server hung up."""
        self._run.broken(exc)


def main() -> None:
    """Read the plan, run it, write the report."""
    plan = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Plan)

    async def run() -> Report:
        return await Run(plan)()

    report = uvloop.run(run())
    # Not `sys.stdout`: with PYTHONUNBUFFERED that writes a part of it, and says so to nobody.
    with open(1, "wb", closefd=False) as out:
        out.write(msgspec.msgpack.encode(report))


if __name__ == "__main__":
    main()
