"""An HTTP/1.1 load in a process of its own: bytes made beforehand, one request per connection.

Run as `python -m bench.http_load` by `tools.load.process`.
"""

import asyncio
import time
from collections import deque

import msgspec

from tools.load.http import ClientConnection, Response
from tools.load.process import run_in_process, serve_plan

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
    return await run_in_process("bench.http_load", plan, Report, within)


class Run:
    """One plan under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = time.perf_counter
        self.began = 0.0
        self.due: deque[int] = deque()
        # Longest idle first, so that none is idle for so long that a server gives it up.
        self.idle: deque[ClientConnection] = deque()
        self.sent_at = [0.0] * len(plan.requests)
        self.done_at = [0.0] * len(plan.requests)
        self.answers: list[Response] = []
        self.next = 0
        self.over = asyncio.get_running_loop().create_future()

    async def __call__(self) -> Report:
        """Open all connections, then start the clock."""
        loop = asyncio.get_running_loop()
        for _ in range(self.plan.connections):
            _, connection = await loop.create_connection(
                lambda: ClientConnection(self.answered, self.broken), "127.0.0.1", self.plan.port
            )
            self.idle.append(connection)
        cpu, self.began = time.process_time(), self.clock()
        if self.plan.schedule:
            self._release()
        else:
            self._take(len(self.plan.requests))
        await self.over
        seconds, cpu = self.clock() - self.began, time.process_time() - cpu
        return self._report(seconds, cpu)

    def answered(self, connection: ClientConnection, answer: Response) -> None:
        """Note the answer and give the connection its next request."""
        self.done_at[connection.request] = self.clock()
        self.answers.append(answer)
        if self.due:
            self._send(connection, self.due.popleft())
        else:
            self.idle.append(connection)
            if len(self.answers) == len(self.plan.requests):
                self.over.set_result(None)

    def broken(self, _: ClientConnection, error: Exception | None) -> None:
        """Fail the run: the server must not close a connection."""
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

    def _send(self, connection: ClientConnection, number: int) -> None:
        connection.request = number
        self.sent_at[number] = self.clock()
        connection.transport.write(self.plan.requests[number])

    def _report(self, seconds: float, cpu_seconds: float) -> Report:
        began = [self.began + at for at in self.plan.schedule] or self.sent_at
        bad = [answer for answer in self.answers if not 200 <= answer[0] < 300]
        return Report(
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            good=len(self.answers) - len(bad),
            expected=sum(body.count(self.plan.expect) for _, _, body in self.answers),
            first_bad=f"{bad[0][0]} {bad[0][2][:300].decode('utf-8', 'replace')}" if bad else "",
            latencies=[done - at for done, at in zip(self.done_at, began, strict=True)],
            lags=[sent - at for sent, at in zip(self.sent_at, began, strict=True)],
        )


async def run(plan: Plan) -> Report:
    return await Run(plan)()


if __name__ == "__main__":
    serve_plan(Plan, run)
