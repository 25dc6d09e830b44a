import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.shared.errors import OverloadedError
from serve_app.http.problems import REQUEST_ID
from serve_app.limits.load_limiter import REQUEST_SLOT, LoadLimiter
from serve_app.limits.middleware import SLASH, LimitsMiddleware
from settings.ingress import IngressOptions
from telemetry.registry import Metrics, MetricsSnapshot

# Those without a key, as all are in this file, have half of it.
OPTIONS = IngressOptions(request_limit=4, stream_limit=2, body_budget=200)
MAX_BODY = 50


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def problem(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document


async def ask(
    guard: ASGIApp,
    *,
    headers: Iterable[tuple[str, str]] = (),
    chunks: Iterable[bytes] = (b"",),
    raw_path: bytes = b"/x",
    method: str = "POST",
) -> Reply:
    reply, parts = Reply(), list(chunks)

    async def receive() -> Message:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            reply.body += message["body"]

    await guard(a_scope(headers=headers, raw_path=raw_path, method=method), receive, send)
    return reply


def a_scope(
    *, headers: Iterable[tuple[str, str]] = (), raw_path: bytes = b"/x", method: str = "POST"
) -> Scope:
    return {
        "type": "http",
        "method": method,
        "path": raw_path.decode(),
        "raw_path": raw_path,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


async def nowhere(_: Message) -> None:
    """Nobody reads the answer."""


class Inner:
    """Reads the body, remembers what it saw, and answers 204."""

    def __init__(self, act: Callable[[Scope], None] = lambda _: None) -> None:
        self.scopes: list[Scope] = []
        self.bodies: list[bytes] = []
        self._act = act

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.bodies.append(b"".join([chunk async for chunk in _chunks(receive)]))
        self._act(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        yield message["body"]
        if not message["more_body"]:
            return


def guarded(inner: ASGIApp) -> tuple[LimitsMiddleware, LoadLimiter]:
    gate = LoadLimiter(OPTIONS)
    return LimitsMiddleware(inner, gate=gate, max_body=MAX_BODY, metrics=Metrics("r")), gate


async def test_a_body_within_the_limit_passes_and_everything_is_given_back() -> None:
    inner = Inner()
    guard, gate = guarded(inner)
    reply = await ask(guard, headers=[("content-length", "50")], chunks=[b"x" * 20, b"x" * 30])
    assert reply.status == 204
    assert inner.bodies == [b"x" * 50]
    assert (gate.requests, gate.streams, gate.body_bytes) == (0, 0, 0)


async def test_a_declared_body_over_the_limit_is_refused_unread() -> None:
    inner = Inner()
    guard, _ = guarded(inner)
    reply = await ask(guard, headers=[("content-length", "51")])
    assert (reply.status, reply.problem["code"]) == (413, "too_large")
    assert reply.headers["connection"] == "close"
    assert inner.scopes == []


async def test_a_body_of_unknown_length_is_refused_where_it_passes_the_limit() -> None:
    inner = Inner()
    guard, gate = guarded(inner)
    reply = await ask(guard, chunks=[b"x" * 30] * 100)
    assert (reply.status, reply.problem["code"]) == (413, "too_large")
    assert gate.body_bytes == 0


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP", "deflate, gzip"])
async def test_compressed_bodies_are_refused(encoding: str) -> None:
    guard, _ = guarded(Inner())
    reply = await ask(guard, headers=[("content-encoding", encoding)])
    assert (reply.status, reply.problem["code"]) == (415, "unsupported_media_type")


async def test_identity_is_no_compression() -> None:
    guard, _ = guarded(Inner())
    assert (await ask(guard, headers=[("content-encoding", "identity")])).status == 204


async def test_one_request_too_many_is_told_to_come_back() -> None:
    guard, gate = guarded(Inner())
    gate.admit()
    held = gate.admit()
    reply = await ask(guard)
    assert (reply.status, reply.headers["retry-after"]) == (429, "1")
    held.release()
    assert (await ask(guard)).status == 204


async def test_who_looks_after_a_full_replica_gets_in_and_takes_no_place() -> None:
    guard, gate = guarded(Inner())
    looking = gate.admit(urgent=True)
    gate.admit()
    assert (await ask(guard)).status == 204
    gate.admit()
    assert (await ask(guard)).status == 429
    gate.admit(urgent=True).release()
    looking.release()
    assert (gate.requests, gate.urgent) == (2, 0)
    assert (await ask(guard)).status == 429


async def test_bodies_that_do_not_fit_together_are_told_to_come_back() -> None:
    guard, gate = guarded(Inner())
    first = gate.admit()
    first.reserve_body(60)
    reply = await ask(guard, headers=[("content-length", "50")], chunks=[b"x" * 40, b"x" * 10])
    assert reply.status == 429
    assert "MUSTER_BODY_BUDGET" in reply.problem["detail"]
    assert (gate.requests, gate.body_bytes) == (1, 60)


async def test_what_is_only_announced_takes_no_room() -> None:
    """Else a few connections that send nothing would refuse everybody's bodies."""
    came = asyncio.Event()

    async def never() -> Message:
        came.set()
        await asyncio.Event().wait()
        raise AssertionError

    guard, gate = guarded(Inner())
    scope = a_scope(headers=[("content-length", "50")])
    announced = [asyncio.create_task(guard(scope, never, nowhere)) for _ in range(2)]
    await came.wait()
    assert (gate.requests, gate.body_bytes) == (2, 0)
    for task in announced:
        task.cancel()
    await asyncio.gather(*announced, return_exceptions=True)
    assert gate.requests == 0


async def test_a_longer_body_than_announced_is_refused() -> None:
    guard, gate = guarded(Inner())
    reply = await ask(guard, headers=[("content-length", "10")], chunks=[b"x" * 30] * 2)
    assert (reply.status, gate.body_bytes) == (413, 0)


async def test_a_request_that_lingers_makes_room_for_others() -> None:
    guard, gate = guarded(Inner(lambda scope: scope[REQUEST_SLOT].count_as_stream()))
    held = [gate.admit()]
    assert (await ask(guard)).status == 204
    assert (gate.requests, gate.streams) == (1, 0)
    held[0].count_as_stream()
    assert (gate.requests, gate.streams) == (0, 1)
    with pytest.raises(OverloadedError):
        gate.admit().count_as_stream()


async def test_a_surprise_is_answered_without_its_internals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def crash(_: Scope) -> None:
        raise KeyError("secret internals")

    guard, gate = guarded(Inner(crash))
    reply = await ask(guard, headers=[("x-request-id", "r-17")])
    assert (reply.status, reply.problem["requestId"]) == (500, "r-17")
    assert b"secret" not in reply.body
    assert gate.requests == 0
    assert "KeyError" in "".join(capsys.readouterr())


async def test_who_hangs_up_while_sending_is_counted_and_makes_no_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def hang_up(_: Scope) -> None:
        raise ClientDisconnect

    gate, metrics = LoadLimiter(OPTIONS), Metrics("r")
    guard = LimitsMiddleware(Inner(hang_up), gate=gate, max_body=MAX_BODY, metrics=metrics)
    assert (await ask(guard)).status == 0  # nobody is there to be answered
    assert (gate.requests, gate.body_bytes) == (0, 0)
    page = metrics.render(MetricsSnapshot(), requests=0, streams=0).decode()
    assert 'status="499"} 1.0' in page
    assert "request.crashed" not in "".join(capsys.readouterr())


async def test_an_answer_that_breaks_half_way_is_broken_off() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError

    guard, gate = guarded(half)
    with pytest.raises(KeyError):
        await ask(guard)
    assert gate.requests == 0


@pytest.mark.parametrize(
    ("given", "kept"), [("abc-1.2:3", True), ("", False), ("a b", False), ("x" * 129, False)]
)
async def test_a_request_id_is_taken_over_if_it_is_one(given: str, kept: bool) -> None:
    inner = Inner()
    guard, _ = guarded(inner)
    await ask(guard, headers=[("x-request-id", given)])
    request_id = inner.scopes[0][REQUEST_ID]
    assert (request_id == given) is kept
    assert request_id


async def test_a_slash_within_an_id_does_not_cut_the_path() -> None:
    inner = Inner()
    guard, _ = guarded(inner)
    await ask(guard, raw_path=b"/api/wait-states/a%2Fb%20c%252F/x%2fy")
    assert inner.scopes[0]["path"] == f"/api/wait-states/a{SLASH}b c%2F/x{SLASH}y"


async def test_methods_that_nobody_knows_make_no_series() -> None:
    metrics = Metrics("r")
    guard = LimitsMiddleware(Inner(), gate=LoadLimiter(OPTIONS), max_body=MAX_BODY, metrics=metrics)
    await ask(guard, method="BREW")
    page = metrics.render(MetricsSnapshot(), requests=0, streams=0).decode()
    assert 'method="OTHER",replica="r",route="unmatched",status="204"' in page


async def test_no_answer_is_taken_for_what_it_is_not() -> None:
    guard = LimitsMiddleware(
        Inner(), gate=LoadLimiter(OPTIONS), max_body=MAX_BODY, metrics=Metrics("r")
    )
    assert (await ask(guard)).headers["x-content-type-options"] == "nosniff"
    refused = await ask(guard, headers=[("content-encoding", "gzip")])
    assert refused.status == 415
    assert refused.headers["x-content-type-options"] == "nosniff"
