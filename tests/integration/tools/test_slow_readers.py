"""Large answers over real connections: what a client does not read is the tenant's to hold."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serve_app.limits.load_limiter import REQUEST_SLOT, LoadLimiter
from serve_app.limits.middleware import LimitsMiddleware
from settings.ingress import IngressOptions
from telemetry.registry import Metrics

# More than the kernel keeps for a connection.
SIZE = 16 * 1024 * 1024
BUDGET = 6 * SIZE
ASK = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer so much to the tenant in the path."""
    scope[REQUEST_SLOT].assign_tenant(int(scope["path"].strip("/")))
    await Response(b"x" * SIZE)(scope, receive, send)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[LoadLimiter, int]]:
    gate = LoadLimiter(IngressOptions(answer_budget=BUDGET))
    guard = LimitsMiddleware(answer, gate=gate, max_body=1_000, metrics=Metrics("r"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(guard, lifespan="off", log_level="error"))
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield gate, listening.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await task


class Client:
    """Asks, and reads as much as it is told to."""

    def __init__(self, port: int, tenant: int) -> None:
        self._wire = socket.socket()
        self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._wire.connect(("127.0.0.1", port))
        self._wire.send(ASK % tenant)
        self._wire.setblocking(False)

    async def status(self) -> int:
        """The status; no more than the head is read."""
        loop = asyncio.get_running_loop()
        head = await asyncio.wait_for(loop.sock_recv(self._wire, 64), 10)
        return int(head.split(b" ")[1])

    async def read_all(self) -> int:
        """How many bytes come until there are as many as the answer has."""
        loop, total = asyncio.get_running_loop(), 0
        while total < SIZE:
            total += len(await asyncio.wait_for(loop.sock_recv(self._wire, 1_000_000), 10))
        return total

    def close(self) -> None:
        self._wire.close()


async def until(what: str, held: int, gate: LoadLimiter) -> None:
    for _ in range(500):
        if gate.answer_bytes == held:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{what}: {gate.answer_bytes} bytes are held, not {held}")


async def test_a_tenant_that_does_not_read_holds_half_until_it_reads_or_goes() -> None:
    async with serving() as (gate, port):
        crowd = [Client(port, 1) for _ in range(3)]
        assert [await one.status() for one in crowd] == [200] * 3
        assert gate.answer_bytes == 3 * SIZE
        late = Client(port, 1)
        assert await late.status() == 429
        other = Client(port, 2)
        assert await other.status() == 200
        assert await other.read_all() > SIZE - 100
        await until("what was read", 3 * SIZE, gate)
        assert await crowd[0].read_all() > SIZE - 100
        await until("what was read", 2 * SIZE, gate)
        for one in [*crowd, late, other]:
            one.close()
        await until("who went away", 0, gate)
