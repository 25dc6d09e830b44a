"""A receiver of webhooks: answers after a while, and remembers when each delivery came.

`POST /count` tells how many there were; `POST /told` their ids and times, and forgets them. What
goes to a path with `poison` in it is answered by 500. It reads of a request only what it needs.
Run as `python -m bench.peers.receiver PORT DELAY_MS`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import psutil
import uvloop

from bench.peers.process import serving
from bench.peers.raw_server import ServerConnection, serve_forever
from bench.wire import Door, told
from host.ports import free_port

FINE = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'
BROKEN = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"
_MARK = b'"mark":"'


class Deliveries:
    """What came, when, and how much of it was refused."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.times: list[float] = []
        self.refused = 0


class Receiver:
    """The receiver as the benchmark sees it."""

    def __init__(self, port: int, process: psutil.Process) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}/hook"
        self._door = Door(port, "none", "")

    async def count(self) -> int:
        """How many deliveries came since the last `told`."""
        found: int = await told(self._door.port, self._door.post("/count", b""))
        return found

    async def told(self) -> Deliveries:
        """All that came since the last time."""
        document = await told(self._door.port, self._door.post("/told", b""))
        deliveries = Deliveries()
        deliveries.marks, deliveries.times = document["marks"], document["times"]
        deliveries.refused = document["refused"]
        return deliveries

    async def until(self, count: int, within: float = 300.0) -> None:
        """Wait for so many deliveries."""
        async with asyncio.timeout(within):
            while await self.count() < count:  # noqa: ASYNC110  it is in another process
                await asyncio.sleep(0.02)


@asynccontextmanager
async def receiver_service(delay_ms: int) -> AsyncIterator[Receiver]:
    """A receiver in a process of its own."""
    port = free_port()
    async with serving("bench.peers.receiver", port, str(delay_ms)) as process:
        yield Receiver(port, process)


class _Connection(ServerConnection):
    """Answers each request, one after the other."""

    came = Deliveries()
    delay = 0.0

    def handle(self, request: bytes) -> None:
        came = _Connection.came
        path = request[: request.index(b"\r\n")].split(b" ")[1]
        if path == b"/count":
            self._answer(len(came.marks))
        elif path == b"/told":
            self._answer({"marks": came.marks, "times": came.times, "refused": came.refused})
            _Connection.came = Deliveries()
        elif b"poison" in path or b'"poison":true' in request:
            came.refused += 1
            self._later(BROKEN)
        else:
            at = request.rindex(_MARK) + len(_MARK)
            came.marks.append(request[at : request.index(b'"', at)].decode())
            came.times.append(time.monotonic())
            self._later(FINE)

    def _later(self, answer: bytes) -> None:
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, answer)
        else:
            self.transport.write(answer)

    def _answer(self, document: object) -> None:
        body = orjson.dumps(document)
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)


if __name__ == "__main__":
    _Connection.delay = float(sys.argv[2]) / 1e3
    uvloop.run(serve_forever(_Connection, int(sys.argv[1])))
