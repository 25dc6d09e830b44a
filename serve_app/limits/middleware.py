"""The limits of one replica as ASGI middleware: number, size and form of requests.

A request over a limit is refused before its body is read, so that a flood costs no memory. Bytes
written to a connection that nobody reads stay in memory, so a large response is sent in chunks,
each after the one before has left, and its request ends when the last has left.
"""

import os
import re
import time
from typing import NamedTuple
from urllib.parse import unquote

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.shared.errors import OverloadedError
from serve_app.http import problems
from serve_app.http.json_io import headers_of_scope
from serve_app.http.nul_check import NUL, NUL_IN_URL, check_url
from serve_app.http.problems import ProblemError
from serve_app.limits.load_limiter import REQUEST_SLOT, LoadLimiter, RequestSlot
from telemetry.registry import Metrics

log = structlog.get_logger("http")

# Replaces a slash that a client wrote as %2F inside an id. No id has it: it is not printable.
SLASH = "\ue000"
_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
RESPONSE_START, RESPONSE_BODY = "http.response.start", "http.response.body"
CHUNK_BYTES = 65_536
"""Bytes that uvicorn buffers for a connection before it waits for the client to read."""
_LENGTH = b"content-length"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Browsers must not guess the type of a response.
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
# Probes and scrapes must get an answer from a busy replica too. They cost little, because they
# are answered from caches.
_URGENT = ("/actuator/", "/metrics")


class _RequestHead(NamedTuple):
    """What the middleware reads from the headers."""

    request_id: str
    length: int | None
    encoding: str


class LimitsMiddleware:
    """The outermost layer: limits, request id, counters, and the answer to unexpected errors."""

    def __init__(self, app: ASGIApp, *, gate: LoadLimiter, max_body: int, metrics: Metrics) -> None:
        self._app = app
        self._gate = gate
        self._max_body = max_body
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        facts = _request_head(scope)
        scope[problems.REQUEST_ID] = facts.request_id
        counted = _CountedSend(scope, receive, send)
        lingers = False
        try:
            if NUL in scope["path"] or NUL_IN_URL in scope.get("query_string", b""):
                check_url(scope)
            request_slot = self._admit(facts, urgent=scope["path"].startswith(_URGENT))
            try:
                scope[REQUEST_SLOT] = counted.slot = request_slot
                _keep_slashes(scope)
                await self._app(scope, self._counted(receive, facts, request_slot), counted)
            finally:
                lingers = request_slot.lingers
                request_slot.release()
        except ClientDisconnect:
            log.debug("request.hung_up", request=facts.request_id)
        except Exception as error:
            if counted.status:  # too late for another response: break it off
                log.exception("request.broken_off", request=facts.request_id)
                raise
            problem = problems.problem_of(error)
            if problem is problems.INTERNAL:
                log.exception("request.crashed", request=facts.request_id)
            problems.note_denial(error, problem, scope, self._metrics.denials.note)
            await problems.problem_response(problem, scope)(scope, receive, counted)
        finally:
            status = counted.status or 499
            if status == 429:
                self._metrics.count_shed()
            seconds = None if lingers else time.perf_counter() - began
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = getattr(scope.get("route"), "path_format", "unmatched")
            self._metrics.http.observe(method, route, status, seconds)

    def _admit(self, facts: _RequestHead, *, urgent: bool) -> RequestSlot:
        if facts.encoding not in {"", "identity"}:
            detail = f"a body with Content-Encoding {facts.encoding[:40]} is not accepted"
            accepted = {"Accept-Encoding": "identity"}
            raise problems.problem_error(415, "unsupported_media_type", detail, headers=accepted)
        if facts.length is not None and facts.length > self._max_body:
            raise body_too_large(self._max_body)
        return self._gate.admit(urgent=urgent)

    def _counted(self, receive: Receive, facts: _RequestHead, request_slot: RequestSlot) -> Receive:
        """Count a body's bytes as they arrive; a Content-Length alone reserves no room."""
        if facts.length == 0:
            return receive
        total = 0

        async def receive_counted() -> Message:
            nonlocal total
            message = await receive()
            body = message.get("body")
            if body:
                total += len(body)
                if total > self._max_body:
                    raise body_too_large(self._max_body)
                request_slot.reserve_body(len(body))
            return message

        return receive_counted


class _CountedSend:
    """Sends a response and records its status; a large one no faster than the client reads.

    This is no closure: one that refers to itself is a reference cycle, which keeps the request in
    memory until the garbage collector runs.
    """

    __slots__ = ("_receive", "_scope", "_send", "slot", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.slot: RequestSlot | None = None
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == RESPONSE_START:
            size = content_length_of(message)
            if size > CHUNK_BYTES and self.slot is not None:
                refusal = _refuse_answer(self.slot, size, self._scope)
                if refusal is not None:
                    await refusal(self._scope, self._receive, self)
                    self._send = discard
                    return
                self._send = send_in_chunks(self._send)
            self.status = message["status"]
            message["headers"] = [*message["headers"], _NO_SNIFFING]
        await self._send(message)


def _refuse_answer(request_slot: RequestSlot, size: int, scope: Scope) -> Response | None:
    """Return the problem to send in place of a large response; None if there is room for it."""
    try:
        # A request that may have changed something gets its response in any case.
        request_slot.reserve_response(size, always=scope["method"] != "GET")
    except OverloadedError as error:
        return problems.problem_response(problems.problem_of(error), scope)
    return None


def content_length_of(start: Message) -> int:
    for name, value in start["headers"]:
        if name == _LENGTH:
            return int(value)
    return 0


def send_in_chunks(send: Send) -> Send:
    """Send bodies in chunks: before each, the server waits until the last one has left."""

    async def send_piece_by_piece(message: Message) -> None:
        body, at = message.get("body", b""), 0
        while len(body) - at > CHUNK_BYTES:
            await send(
                {"type": RESPONSE_BODY, "body": body[at : at + CHUNK_BYTES], "more_body": True}
            )
            at += CHUNK_BYTES
        await send({**message, "body": body[at:]} if at else message)

    return send_piece_by_piece


async def discard(_: Message) -> None:
    """Send nothing, because another response was sent."""


def body_too_large(limit: int) -> ProblemError:
    """Make the error of a body over the limit; it closes the connection, as bytes may follow."""
    detail, close = f"the body is larger than {limit} bytes", {"Connection": "close"}
    return problems.problem_error(413, "too_large", detail, headers=close)


def _request_head(scope: Scope) -> _RequestHead:
    headers = headers_of_scope(scope)
    request_id = headers.get("x-request-id", "")
    if not _REQUEST_ID.fullmatch(request_id):
        request_id = os.urandom(16).hex()
    length = headers.get("content-length", "")
    encoding = headers.get("content-encoding", "")
    return _RequestHead(
        request_id,
        int(length) if length.isascii() and length.isdigit() else None,
        encoding.strip().lower(),
    )


def _keep_slashes(scope: Scope) -> None:
    """Route on the path with encoded slashes replaced, since they are part of an id."""
    raw = scope.get("raw_path") or b""
    if b"%2" in raw and _ENCODED_SLASH.search(raw):
        kept = _ENCODED_SLASH.sub(SLASH.encode(), raw.split(b"?")[0])
        scope["path"] = unquote(kept)
