"""More than anybody can serve, from a process of its own: `python -m tools.chaos.faults.flood`.

An `Order` comes in on stdin; what was acknowledged is in the ledger it was told to write, and its
`Outcome` in a file beside that. Requests are independent of each other, as those of a crowd
are: an open flood sends at its rate whatever becomes of those before, and does not come back.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

from cli.shell.errors import CommandError
from tools.chaos.ack_log import AckLog, make_ack
from tools.chaos.scenario import ChaosScenario, RequestChannel, ScenarioShape, ScenarioStep

_TICK = 0.002
_DRAIN_WITHIN = 15.0  # seconds for answers that are still under way at the end
_RECONNECT_AFTER = 0.1  # seconds until a broken connection is opened anew
_HEAD_END = b"\r\n\r\n"


class FloodOrder(msgspec.Struct, kw_only=True):
    """What to send where."""

    host: str
    port: int
    key: str
    run: str
    ledger: str
    seconds: float
    connections: int
    rate: float | None = None
    """Requests a second; None sends the next one when the last is answered."""


class FloodResult(msgspec.Struct, kw_only=True):
    """What came back."""

    seconds: float
    offered: int = 0
    held_back: int = 0
    """Offered while every connection was busy: nobody at the other end heard of them."""
    broken: int = 0
    bare: int = 0
    """Refusals without Retry-After."""
    answers: dict[int, int] = {}
    latencies: list[float] = []
    """Of what was accepted, in seconds, from the moment it was sent."""

    @property
    def sent(self) -> int:
        """Requests that the other end heard of."""
        return self.offered - self.held_back

    @property
    def accepted(self) -> int:
        """Requests that were acknowledged."""
        return sum(count for status, count in self.answers.items() if status < 300)

    @property
    def refused(self) -> int:
        """Requests that were told to come back."""
        return self.answers.get(429, 0) + self.answers.get(503, 0)

    @property
    def rate(self) -> float:
        """Accepted requests a second."""
        return self.accepted / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that this share of the accepted requests did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


async def run_flood(order: FloodOrder) -> FloodResult:
    """Run an order in a process of its own: a busy generator must not measure itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tools.chaos.faults.flood",
        stdin=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(order.seconds + _DRAIN_WITHIN + 60):
            await process.communicate(msgspec.json.encode(order))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise CommandError("The flood broke off: its last words are above.")
    return msgspec.json.decode(_result_file(order).read_bytes(), type=FloodResult)


def build_request(order: FloodOrder, number: int) -> tuple[ChaosScenario, ScenarioStep, bytes]:
    """Every second request registers a wait; the one after it is its callback."""
    name = f"{order.run}-{number // 2}"
    story = ChaosScenario(
        execution_id=f"flood-{name}", correlation_id=f"f-{name}", shape=ScenarioShape.ALL, waves=()
    )
    if number % 2 == 0:
        step, path = ScenarioStep(RequestChannel.REGISTER), "/api/wait-states"
        headers: dict[str, str] = {}
        body = json.dumps(story.registration()).encode()
    else:
        step = ScenarioStep(RequestChannel.API, f"{name}-a")
        path, headers, body = story.event_request(step)
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {order.host}:{order.port}",
        f"Authorization: Bearer {order.key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return story, step, "\r\n".join([*lines, "", ""]).encode() + body


def split_response(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Status, head in lower case and body, once the whole answer is there."""
    end = data.find(_HEAD_END)
    if end < 0:
        return None
    head = data[:end].lower()
    _, found, rest = head.partition(b"\r\ncontent-length:")
    length = int(rest.partition(b"\r\n")[0]) if found else 0
    start = end + len(_HEAD_END)
    if len(data) < start + length:
        return None
    return int(head[9:12]), head, data[start : start + length]


class Flood:
    """An order under way."""

    def __init__(self, order: FloodOrder, ledger: AckLog) -> None:
        self.order = order
        self.outcome = FloodResult(seconds=order.seconds)
        self.over = False
        self._ledger = ledger
        self._number = 0
        self._began = 0.0
        self._idle: list[FloodConnection] = []
        self._under_way: set[FloodConnection] = set()
        self._opening: set[asyncio.Future[None]] = set()

    async def __call__(self) -> FloodResult:
        """Open every connection, then begin."""
        for _ in range(self.order.connections):
            await self._open()
        self._began = time.monotonic()
        if self.order.rate is None:
            await self._in_turn()
        else:
            await self._at_rate(self.order.rate)
        self.over = True
        deadline = time.monotonic() + _DRAIN_WITHIN
        while self._under_way and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_TICK)
        self.outcome.broken += len(self._under_way)
        return self.outcome

    async def _in_turn(self) -> None:
        while self._idle:
            self._send(self._idle.pop())
        await asyncio.sleep(self.order.seconds)

    async def _at_rate(self, rate: float) -> None:
        elapsed = 0.0
        while elapsed < self.order.seconds:
            await asyncio.sleep(_TICK)
            elapsed = min(time.monotonic() - self._began, self.order.seconds)
            for _ in range(int(elapsed * rate) - self.outcome.offered):
                if self._idle:
                    self._send(self._idle.pop())
                else:
                    self.outcome.offered += 1
                    self.outcome.held_back += 1

    def answered(self, connection: "FloodConnection", answer: tuple[int, bytes, bytes]) -> None:
        """Note the answer; the connection is free for the next request."""
        status, head, body = answer
        outcome = self.outcome
        outcome.answers[status] = outcome.answers.get(status, 0) + 1
        now = time.monotonic()
        if status < 300:
            outcome.latencies.append(now - connection.sent_at)
            self._ledger.note(make_ack(*connection.in_flight, json.loads(body), now - self._began))
        elif b"\r\nretry-after:" not in head:
            outcome.bare += 1
        self._under_way.discard(connection)
        if self.over:
            return
        if self.order.rate is None:
            self._send(connection)
        else:
            self._idle.append(connection)

    def broken(self, connection: "FloodConnection") -> None:
        """A connection is gone, perhaps with a request."""
        if connection in self._under_way:
            self.outcome.broken += 1
            self._under_way.discard(connection)
        elif connection in self._idle:
            self._idle.remove(connection)
        if not self.over:
            asyncio.get_running_loop().call_later(_RECONNECT_AFTER, self._reopen)

    def _reopen(self) -> None:
        task = asyncio.ensure_future(self._open())
        self._opening.add(task)
        task.add_done_callback(self._opened)

    def _opened(self, task: "asyncio.Future[None]") -> None:
        self._opening.discard(task)
        if not task.cancelled() and isinstance(task.exception(), OSError) and not self.over:
            asyncio.get_running_loop().call_later(_RECONNECT_AFTER, self._reopen)

    async def _open(self) -> None:
        loop, order = asyncio.get_running_loop(), self.order
        _, connection = await loop.create_connection(
            lambda: FloodConnection(self), order.host, order.port
        )
        self._idle.append(connection)

    def _send(self, connection: "FloodConnection") -> None:
        *in_flight, raw = build_request(self.order, self._number)
        connection.in_flight = cast("tuple[ChaosScenario, ScenarioStep]", tuple(in_flight))
        self._number += 1
        self.outcome.offered += 1
        self._under_way.add(connection)
        connection.sent_at = time.monotonic()
        connection.transport.write(raw)


class FloodConnection(asyncio.Protocol):
    """A connection with at most one request under way."""

    transport: asyncio.Transport
    in_flight: tuple[ChaosScenario, ScenarioStep]
    sent_at: float

    def __init__(self, flood: Flood) -> None:
        self._flood = flood
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Gather until the answer is whole."""
        self._data += data
        answer = split_response(self._data)
        if answer is not None:
            self._data = b""
            self._flood.answered(self, answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end hung up."""
        self._flood.broken(self)


def main() -> None:
    """Read the order, carry it out, tell the outcome."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=FloodOrder)
    ledger = AckLog.create(Path(order.ledger))

    async def run() -> FloodResult:
        return await Flood(order, ledger)()

    try:
        outcome: Any = uvloop.run(run())
    finally:
        ledger.close()
    _result_file(order).write_bytes(msgspec.json.encode(outcome))


def _result_file(order: FloodOrder) -> Path:
    return Path(order.ledger).with_suffix(".outcome.json")


if __name__ == "__main__":
    main()
