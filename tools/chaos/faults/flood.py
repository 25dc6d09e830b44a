"""A flood of requests, more than an instance can serve, from a process of its own.

Requests are independent of each other, as those of a crowd are: an open flood sends at its rate
whatever happens to earlier requests, and sends no request twice. Acknowledged requests go to an
ack log.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import TypeAlias

import msgspec

from tools.chaos.ack_log import AckLog, make_ack
from tools.chaos.latency import percentile
from tools.chaos.requests import REGISTER_PATH
from tools.chaos.scenario import ChaosScenario, RequestChannel, ScenarioShape, ScenarioStep
from tools.load.http import ClientConnection, Response
from tools.load.http import build_request as build_http_request
from tools.load.process import run_in_process, serve_plan

_TICK = 0.002
_DRAIN_TIMEOUT = 15.0  # seconds for answers that are still under way at the end
_RECONNECT_AFTER = 0.1  # seconds until a broken connection is opened anew
FloodRequest: TypeAlias = tuple[ChaosScenario, ScenarioStep, bytes]


class FloodOrder(msgspec.Struct, kw_only=True):
    """What to send, and where."""

    host: str
    port: int
    key: str
    run: str
    ack_log: str
    seconds: float
    connections: int
    rate: float | None = None
    """Requests a second; None sends the next one when the last is answered."""


class FloodResult(msgspec.Struct, kw_only=True):
    """The answers to a flood."""

    seconds: float
    offered: int = 0
    held_back: int = 0
    """Offered while every connection was busy, and therefore never sent."""
    broken: int = 0
    bare: int = 0
    """Refusals without Retry-After."""
    answers: dict[int, int] = {}
    latencies: list[float] = []
    """Of accepted requests, in seconds, from the moment of sending."""

    @property
    def sent(self) -> int:
        return self.offered - self.held_back

    @property
    def accepted(self) -> int:
        return sum(count for status, count in self.answers.items() if status < 300)

    @property
    def refused(self) -> int:
        """Requests that were asked to come back later."""
        return self.answers.get(429, 0) + self.answers.get(503, 0)

    @property
    def rate(self) -> float:
        """Accepted requests per second."""
        return self.accepted / self.seconds

    def percentile(self, share: float) -> float:
        """Return the latency that this share of the accepted requests did not exceed."""
        return percentile(self.latencies, share)


async def run_flood(order: FloodOrder) -> FloodResult:
    within = order.seconds + _DRAIN_TIMEOUT + 60
    return await run_in_process("tools.chaos.faults.flood", order, FloodResult, within)


def build_request(order: FloodOrder, number: int) -> FloodRequest:
    """Register a wait with every second request; the request after it is its callback."""
    name = f"{order.run}-{number // 2}"
    scenario = ChaosScenario(
        execution_id=f"flood-{name}", correlation_id=f"f-{name}", shape=ScenarioShape.ALL, waves=()
    )
    if number % 2 == 0:
        step, path = ScenarioStep(RequestChannel.REGISTER), REGISTER_PATH
        headers: dict[str, str] = {}
        body = json.dumps(scenario.registration()).encode()
    else:
        step = ScenarioStep(RequestChannel.API, f"{name}-a")
        path, headers, body = scenario.event_request(step)
    host = f"{order.host}:{order.port}"
    raw = build_http_request("POST", path, body, host=host, key=order.key, headers=headers)
    return scenario, step, raw


class Flood:
    """A flood under way."""

    def __init__(self, order: FloodOrder, ack_log: AckLog) -> None:
        self.order = order
        self.result = FloodResult(seconds=order.seconds)
        self.over = False
        self._ack_log = ack_log
        self._number = 0
        self._began = 0.0
        self._idle: list[ClientConnection] = []
        self._sent_at: dict[ClientConnection, float] = {}  # of the requests under way
        self._opening: set[asyncio.Future[None]] = set()

    async def __call__(self) -> FloodResult:
        """Open every connection, then begin."""
        for _ in range(self.order.connections):
            await self._open()
        self._began = time.monotonic()
        if self.order.rate is None:
            await self._send_in_turn()
        else:
            await self._send_at_rate(self.order.rate)
        self.over = True
        deadline = time.monotonic() + _DRAIN_TIMEOUT
        while self._sent_at and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_TICK)
        self.result.broken += len(self._sent_at)
        return self.result

    async def _send_in_turn(self) -> None:
        while self._idle:
            self._send(self._idle.pop())
        await asyncio.sleep(self.order.seconds)

    async def _send_at_rate(self, rate: float) -> None:
        elapsed = 0.0
        while elapsed < self.order.seconds:
            await asyncio.sleep(_TICK)
            elapsed = min(time.monotonic() - self._began, self.order.seconds)
            for _ in range(int(elapsed * rate) - self.result.offered):
                if self._idle:
                    self._send(self._idle.pop())
                else:
                    self.result.offered += 1
                    self.result.held_back += 1

    def _on_response(self, connection: ClientConnection, response: Response) -> None:
        status, head, body = response
        result, now = self.result, time.monotonic()
        result.answers[status] = result.answers.get(status, 0) + 1
        sent_at = self._sent_at.pop(connection)
        if status < 300:
            result.latencies.append(now - sent_at)
            scenario, step, _ = connection.request
            self._ack_log.note(make_ack(scenario, step, json.loads(body), now - self._began))
        elif b"\r\nretry-after:" not in head:
            result.bare += 1
        if self.over:
            return
        if self.order.rate is None:
            self._send(connection)
        else:
            self._idle.append(connection)

    def _on_lost(self, connection: ClientConnection, _: Exception | None) -> None:
        if self._sent_at.pop(connection, None) is not None:
            self.result.broken += 1
        elif connection in self._idle:
            self._idle.remove(connection)
        self._reopen_later()

    def _reopen_later(self) -> None:
        if not self.over:
            asyncio.get_running_loop().call_later(_RECONNECT_AFTER, self._reopen)

    def _reopen(self) -> None:
        task = asyncio.ensure_future(self._open())
        self._opening.add(task)
        task.add_done_callback(self._opened)

    def _opened(self, task: "asyncio.Future[None]") -> None:
        self._opening.discard(task)
        if not task.cancelled() and isinstance(task.exception(), OSError):
            self._reopen_later()

    async def _open(self) -> None:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: ClientConnection(self._on_response, self._on_lost),
            self.order.host,
            self.order.port,
        )
        self._idle.append(connection)

    def _send(self, connection: ClientConnection) -> None:
        connection.request = build_request(self.order, self._number)
        self._number += 1
        self.result.offered += 1
        self._sent_at[connection] = time.monotonic()
        connection.transport.write(connection.request[2])


async def _run(order: FloodOrder) -> FloodResult:
    ack_log = AckLog.create(Path(order.ack_log))
    try:
        return await Flood(order, ack_log)()
    finally:
        ack_log.close()


if __name__ == "__main__":
    serve_plan(FloodOrder, _run)
