"""Large answers to clients that read slowly, or not at all."""

import asyncio

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve_app.limits.load_limiter import REQUEST_SLOT, LoadLimiter
from serve_app.limits.middleware import CHUNK_BYTES, LimitsMiddleware
from settings.ingress import IngressOptions
from telemetry.registry import Metrics

LARGE = 10 * CHUNK_BYTES
OPTIONS = IngressOptions(request_limit=40, answer_budget=6 * LARGE)
TENANT = 7


class Reader:
    """A client's connection: takes one piece, then no more until it is read from."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.status = 0
        self.took: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if self.took:  # as uvicorn: what is written stays, and the next waits until it has gone
            await self.reads.wait()
        self.took.append(message["body"])


def answering(size: int, tenant: int = TENANT) -> ASGIApp:
    """An app that answers a tenant so many bytes."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[REQUEST_SLOT].assign_tenant(tenant)
        headers = [(b"content-length", b"%d" % size), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * size})

    return app


async def hold() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


class Replica:
    """A guard, and those who ask it."""

    def __init__(self) -> None:
        self.gate = LoadLimiter(OPTIONS)
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, size: int, *, method: str = "GET", tenant: int = TENANT) -> Reader:
        app = answering(size, tenant)
        guard = LimitsMiddleware(app, gate=self.gate, max_body=50, metrics=Metrics("r"))
        reader = Reader()
        scope = {
            "type": "http", "method": method, "path": "/x", "raw_path": b"/x", "headers": [],
        }  # fmt: skip
        self.tasks.append(asyncio.create_task(guard(scope, hold, reader.send)))
        for _ in range(20):
            await asyncio.sleep(0)
        return reader


async def test_a_tenant_whose_answers_are_not_read_holds_half_and_others_are_served() -> None:
    replica = Replica()
    readers = [await replica.ask(LARGE) for _ in range(8)]
    assert [reader.status for reader in readers] == [200] * 3 + [429] * 5
    assert replica.gate.answer_bytes == 3 * LARGE
    assert b"MUSTER_ANSWER_BUDGET" in readers[-1].took[0]
    assert all(len(reader.took) == 1 for reader in readers), "more was written than was read"
    assert (await replica.ask(LARGE, tenant=8)).status == 200
    for reader in readers:
        reader.reads.set()
    await asyncio.gather(*replica.tasks[:8])
    assert [len(b"".join(reader.took)) for reader in readers[:3]] == [LARGE] * 3
    assert (await replica.ask(LARGE)).status == 200


async def test_what_was_stored_is_told_whatever_is_held() -> None:
    replica = Replica()
    readers = [await replica.ask(LARGE, method="POST") for _ in range(8)]
    assert {reader.status for reader in readers} == {200}
    assert (await replica.ask(LARGE)).status == 429


async def test_who_goes_away_gives_it_back() -> None:
    replica = Replica()
    for _ in range(3):
        await replica.ask(LARGE)
    for task in replica.tasks:
        task.cancel()
    await asyncio.gather(*replica.tasks, return_exceptions=True)
    assert (replica.gate.answer_bytes, replica.gate.requests) == (0, 0)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES])
async def test_small_answers_are_not_counted(size: int) -> None:
    replica = Replica()
    readers = [await replica.ask(size) for _ in range(20)]
    assert {reader.status for reader in readers} == {200}
    assert replica.gate.answer_bytes == 0


@pytest.mark.parametrize("size", [CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES - 1])
async def test_pieces_make_up_the_whole(size: int) -> None:
    replica = Replica()
    reader = await replica.ask(size)
    reader.reads.set()
    await asyncio.gather(*replica.tasks)
    assert len(b"".join(reader.took)) == size
    assert max(map(len, reader.took)) <= CHUNK_BYTES
