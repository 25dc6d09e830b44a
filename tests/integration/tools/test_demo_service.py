"""The demo's fake external service, over real sockets of this machine."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest

from cli.shell.client import Client, connect
from cli.shell.instance import Instance
from tools.demo.waits.script import ScriptedEvent, Via
from tools.demo.waits.service import ExternalService

MUSTER = "http://127.0.0.1:8000"
CALL = {"execution_id": "e", "correlation_id": "c", "callbackUrl": f"{MUSTER}/cb?token=t"}
ARRIVALS = (
    ScriptedEvent(via=Via.KAFKA, at=0.02, data={"n": 2}, is_foreign=True),
    ScriptedEvent(via=Via.CALLBACK, at=0.0, data={"n": 1}, sent_as="once"),
)


class Received:
    """Stands where Muster would, and keeps what came."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200, json={"verdict": "matched", "reason": "expected"})

    def client(self) -> Client:
        http = httpx.AsyncClient(base_url=MUSTER, transport=httpx.MockTransport(self))
        return Client(Instance(MUSTER), http)


@pytest.fixture
def received() -> Received:
    return Received()


@pytest.fixture
async def service(received: Received) -> AsyncIterator[ExternalService]:
    async with ExternalService(received.client(), received.client()) as running:
        yield running


async def test_it_accepts_the_call_and_calls_back_in_order(
    service: ExternalService, received: Received
) -> None:
    told = service.plan("e", ARRIVALS)
    async with connect(Instance(service.url)) as caller, asyncio.timeout(5):
        assert await caller.post("/process", CALL) is None
        deliveries = [await told.get() for _ in ARRIVALS]
    assert [delivery.verdict for delivery in deliveries] == ["matched", "matched"]
    callback, event = received.requests
    assert str(callback.url) == CALL["callbackUrl"]
    assert callback.headers["X-Event-Id"] == "e-once"
    assert b'"execution_id":"e"' in callback.content.replace(b" ", b"")
    assert event.url.path == "/api/internal/events/process.completed"
    assert b'"execution_id":"e-other"' in event.content.replace(b" ", b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", b"400"),
        (b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b"400"),
        (b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nnot json!!", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
async def test_anything_else_is_refused(
    request_bytes: bytes, status: bytes, service: ExternalService
) -> None:
    port = urlsplit(service.url).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes)
    async with asyncio.timeout(5):
        answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert answer.split(b" ")[1] == status
