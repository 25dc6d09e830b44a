"""Deliveries to real servers on loopback, good ones and bad ones."""

import asyncio
import contextlib
import gzip
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from core.dispatch.attempt import MAX_BODY_CHARS, AttemptStatus, DeliveryAttempt, ErrorType
from core.dispatch.claim import DeliveryProfile
from core.shared.call_policy import LOOPBACK, CallPolicy
from handlers.http.client import HttpClient
from handlers.http.webhooks import MAX_ANSWER_BYTES, Webhooks
from tests.integration.http.test_client_failures import secured
from tests.support.deliveries import delivery
from tests.support.servers import LARGEST, OK, Server, Streams, replying, serving

PROFILE = DeliveryProfile(secrets=(b"s" * 32,))


@pytest.fixture
async def webhooks() -> AsyncIterator[Webhooks]:
    async with HttpClient(CallPolicy(LOOPBACK), LARGEST) as caller:
        yield Webhooks(caller, time.time)


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def sent_to(webhooks: Webhooks, raw: bytes, **fields: Any) -> DeliveryAttempt:
    async with serving(replying(raw)) as server:
        sent = await webhooks.send(delivery(server.url, **fields), PROFILE)
        assert len(server.requests) == 1
    return sent


# Answers.


async def test_a_delivery_arrives_and_its_answer_is_kept(webhooks: Webhooks) -> None:
    before = time.time()
    payload = b'{ "total": 12.50,\n "note": "\xc3\xa4" }'
    async with serving(replying(answer(201, b"thanks"))) as server:
        sent = await webhooks.send(delivery(server.url, payload=payload), PROFILE)
    assert (sent.status, sent.code, sent.body) == (AttemptStatus.SUCCESS, 201, "thanks")
    assert (sent.error, sent.error_type, sent.delay) == (None, None, None)
    assert before <= sent.began_at <= time.time()
    assert 0 < sent.seconds < 5
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == payload, "to the byte"
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /ask HTTP/1.1"
    assert f"Content-Length: {len(payload)}" in lines
    assert "Content-Type: application/json" in lines
    assert "X-Muster-Event-Id: 0EVT000000001" in lines
    assert any(line.startswith("User-Agent: muster/") for line in lines)


@pytest.mark.parametrize("payload", [bytes(range(256)), b"\0", b"x" * 1_000_000])
async def test_any_bytes_arrive_as_they_are(webhooks: Webhooks, payload: bytes) -> None:
    async with serving(replying(OK)) as server:
        job = delivery(server.url, payload=payload, content_type="application/octet-stream")
        await webhooks.send(job, PROFILE)
    assert server.requests[0].partition(b"\r\n\r\n")[2] == payload


async def test_an_event_without_data_is_a_request_without_body(webhooks: Webhooks) -> None:
    async with serving(replying(OK)) as server:
        sent = await webhooks.send(delivery(server.url, payload=None), PROFILE)
    assert sent.status is AttemptStatus.SUCCESS
    head, _, body = server.requests[0].lower().partition(b"\r\n\r\n")
    assert body == b""
    assert b"content-length: 0" in head
    assert b"content-type" not in head
    assert b"webhook-signature: v1," in head


ANSWERS = [
    (answer(200), AttemptStatus.SUCCESS, None, None),
    (answer(204), AttemptStatus.SUCCESS, None, None),
    (answer(200, b'{"ack": false, "delaySeconds": 7}'), AttemptStatus.DEFERRED, None, 7.0),
    (
        answer(302, location="http://127.0.0.1:9/"),
        AttemptStatus.CLIENT_ERROR,
        ErrorType.PERMANENT,
        None,
    ),
    (answer(400, b"no"), AttemptStatus.CLIENT_ERROR, ErrorType.PERMANENT, None),
    (answer(404), AttemptStatus.CLIENT_ERROR, ErrorType.PERMANENT, None),
    (answer(408), AttemptStatus.CLIENT_ERROR, ErrorType.TRANSIENT, None),
    (answer(410), AttemptStatus.CLIENT_ERROR, ErrorType.PERMANENT, None),
    (answer(429), AttemptStatus.DEFERRED, None, 30.0),
    (answer(429, Retry_After="9"), AttemptStatus.DEFERRED, None, 9.0),
    (answer(429, retry_after="9"), AttemptStatus.DEFERRED, None, 9.0),
    (answer(500, b"oops"), AttemptStatus.SERVER_ERROR, ErrorType.TRANSIENT, None),
    (answer(503), AttemptStatus.SERVER_ERROR, ErrorType.TRANSIENT, None),
    (answer(503, Retry_After="9"), AttemptStatus.DEFERRED, None, 9.0),
    (answer(999), AttemptStatus.SERVER_ERROR, ErrorType.TRANSIENT, None),
]


@pytest.mark.parametrize(("raw", "status", "error_type", "delay"), ANSWERS)
async def test_what_an_answer_means(
    webhooks: Webhooks,
    raw: bytes,
    status: AttemptStatus,
    error_type: ErrorType | None,
    delay: float | None,
) -> None:
    sent = await sent_to(webhooks, raw)
    assert (sent.status, sent.error_type, sent.delay) == (status, error_type, delay)
    assert sent.code == int(raw[9:12])
    assert sent.body == (raw.partition(b"\r\n\r\n")[2].decode() or None)


async def test_an_answer_may_name_the_time_to_come_again(webhooks: Webhooks) -> None:
    raw = answer(429, Retry_After=formatdate(time.time() + 100, usegmt=True))
    sent = await sent_to(webhooks, raw)
    assert sent.status is AttemptStatus.DEFERRED
    assert sent.delay == pytest.approx(100, abs=5)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(webhooks: Webhooks, status: int) -> None:
    async with serving(replying(OK)) as inside:
        sent = await sent_to(webhooks, answer(status, location=inside.url))
    assert (sent.permanent, sent.code, inside.connections) == (True, status, 0)
    assert sent.error == f"HTTP {status}: no redirect is followed"


async def test_connections_are_used_again(webhooks: Webhooks) -> None:
    async with serving(replying(answer(500, b"each time"))) as server:
        for _ in range(3):
            await webhooks.send(delivery(server.url), PROFILE)
    assert (server.connections, len(server.requests)) == (1, 3)


# Too much, too slow.


@pytest.mark.parametrize("is_declared", [True, False])
@pytest.mark.parametrize("status", [200, 500])
async def test_a_huge_answer_is_cut(webhooks: Webhooks, status: int, is_declared: bool) -> None:
    written = 0

    async def behave(server: Server, streams: Streams) -> None:
        nonlocal written
        await server.take(streams[0])
        length = b"Content-Length: 1000000000\r\n" if is_declared else b"Connection: close\r\n"
        streams[1].write(f"HTTP/1.1 {status} Word\r\n".encode() + length + b"\r\n")
        for _ in range(20_000):
            streams[1].write("ä".encode() * 25_000)
            await streams[1].drain()
            written += 50_000

    async with serving(behave) as server:
        sent = await webhooks.send(delivery(server.url), PROFILE)
        assert sent.status is (
            AttemptStatus.SUCCESS if status == 200 else AttemptStatus.SERVER_ERROR
        )
        assert (sent.code, sent.body) == (status, "ä" * MAX_BODY_CHARS)
        again = await webhooks.send(delivery(server.url), PROFILE)
        assert again.code == status
    assert written < 50_000_000, "the rest is not read"
    assert server.connections == 2


async def test_as_much_as_is_looked_at_leaves_the_connection_in_use(webhooks: Webhooks) -> None:
    async with serving(replying(answer(200, b"y" * MAX_ANSWER_BYTES))) as server:
        for _ in range(2):
            sent = await webhooks.send(delivery(server.url), PROFILE)
            assert sent.body == "y" * MAX_BODY_CHARS
    assert server.connections == 1


async def test_an_answer_that_grows_when_it_is_unpacked_is_cut(webhooks: Webhooks) -> None:
    bomb = gzip.compress(b"z" * 50_000_000)
    raw = answer(200, bomb, content_encoding="gzip", connection="close")
    tracemalloc.start()
    try:
        sent = await sent_to(webhooks, raw)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (sent.status, sent.body) == (AttemptStatus.SUCCESS, "z" * MAX_BODY_CHARS)
    assert most < 10_000_000


async def test_a_slow_answer_in_time_is_one(webhooks: Webhooks) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        await asyncio.sleep(0.3)
        streams[1].write(OK)
        await streams[1].drain()

    async with serving(behave) as server:
        sent = await webhooks.send(delivery(server.url, timeout_seconds=5), PROFILE)
    assert sent.status is AttemptStatus.SUCCESS
    assert 0.3 <= sent.seconds < 3


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize("opening", [b"", b"HTTP/1.1 200 OK\r\nX: ", HEAD], ids=["-", "h", "b"])
@pytest.mark.parametrize("drips", [False, True])
async def test_an_answer_that_does_not_end_ends_in_time(
    webhooks: Webhooks, opening: bytes, drips: bool
) -> None:
    """A server that hangs, or sends a byte now and then."""
    gone = asyncio.Event()

    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(opening)
        with contextlib.suppress(ConnectionError):
            while drips and opening and not streams[0].at_eof():
                streams[1].write(b"x")
                await streams[1].drain()
                await asyncio.sleep(0.05)
        await streams[0].read()
        gone.set()

    async with serving(behave) as server:
        sent = await webhooks.send(delivery(server.url, timeout_seconds=1), PROFILE)
        await asyncio.wait_for(gone.wait(), 5)  # the connection is given up, not kept
    assert (sent.status, sent.error_type) == (AttemptStatus.TIMEOUT, ErrorType.TRANSIENT)
    assert (sent.error, sent.code) == ("no answer within 1 s", None)
    assert sent.counts_as_failure
    assert 0.9 <= sent.seconds < 3


@pytest.mark.parametrize("seconds", [1, 30])
async def test_no_connection_in_time(
    webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """A full queue of connections: the system answers nothing at all."""
    monkeypatch.setattr("handlers.http.webhooks.MAX_CONNECT_SECONDS", 1.5)
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        job = delivery(f"http://127.0.0.1:{port}/", timeout_seconds=seconds)
        sent = await webhooks.send(job, PROFILE)
    assert (sent.status, sent.error_type) == (AttemptStatus.TIMEOUT, ErrorType.TRANSIENT)
    if seconds == 30:
        assert sent.error == "no connection within 1.5 s"
    assert 0.9 <= sent.seconds < 3


# No answer.


async def test_nobody_is_there(webhooks: Webhooks) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        job = delivery(f"http://127.0.0.1:{free.getsockname()[1]}/")
        sent = await webhooks.send(job, PROFILE)
    assert (sent.status, sent.error_type) == (AttemptStatus.CONNECTION_ERROR, ErrorType.TRANSIENT)
    assert sent.error == f"{job.target_url[7:-1]} refused the connection"
    assert sent.counts_as_failure


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n", HEAD, HEAD + b"x" * 999])
async def test_a_connection_that_is_closed_early(webhooks: Webhooks, part: bytes) -> None:
    async def behave(server: Server, streams: Streams) -> None:
        await server.take(streams[0])
        streams[1].write(part)
        await streams[1].drain()

    async with serving(behave) as server:
        sent = await webhooks.send(delivery(server.url), PROFILE)
    assert (sent.status, sent.error_type) == (AttemptStatus.CONNECTION_ERROR, ErrorType.TRANSIENT)
    assert sent.error == "the connection was closed before the answer was complete"
    assert len(server.requests) == 1, "trying again is decided elsewhere"


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 what\r\n\r\n"])
async def test_what_is_no_answer_may_be_one_later(webhooks: Webhooks, raw: bytes) -> None:
    sent = await sent_to(webhooks, raw)
    assert (sent.status, sent.error_type) == (AttemptStatus.CONNECTION_ERROR, ErrorType.TRANSIENT)
    assert (sent.error or "").startswith("the request could not be sent: ")


async def test_a_certificate_that_nobody_known_has_signed(
    webhooks: Webhooks, tmp_path: Path
) -> None:
    async with serving(replying(OK), ssl=secured(tmp_path)) as server:
        job = delivery(server.url.replace("http:", "https:"))
        sent = await webhooks.send(job, PROFILE)
    assert (sent.status, sent.error_type) == (AttemptStatus.CONNECTION_ERROR, ErrorType.TRANSIENT)
    assert sent.error == "the TLS certificate of 127.0.0.1 is not trusted"
    assert server.requests == []


async def test_a_certificate_that_somebody_known_has_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = secured(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    async with (
        serving(replying(OK), ssl=context) as server,
        HttpClient(CallPolicy(LOOPBACK), LARGEST) as caller,
    ):
        job = delivery(server.url.replace("http:", "https:"))
        sent = await Webhooks(caller, time.time).send(job, PROFILE)
    assert sent.status is AttemptStatus.SUCCESS


async def test_loopback_has_to_be_allowed() -> None:
    async with (
        serving(replying(OK)) as server,
        HttpClient(CallPolicy(), LARGEST) as caller,
    ):
        sent = await Webhooks(caller, time.time).send(delivery(server.url), PROFILE)
    refusal = "127.0.0.1 may not be called: it is neither public nor in MUSTER_CALL_NETWORKS"
    assert (sent.permanent, sent.error) == (True, refusal)
    assert server.connections == 0
