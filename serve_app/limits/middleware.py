"""The bounds of one replica, as plain ASGI: how many, how large, in which form.

A flood must cost the flooder, not our memory: what is over a bound is refused before it is read.
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
from serve_app.http.headers import headers_in
from serve_app.http.nul_check import check_address
from serve_app.http.problems import (
    INTERNAL,
    REQUEST_ID,
    Problem,
    ProblemError,
    note_denial,
    problem_of,
    respond,
)
from serve_app.limits.load_limiter import Gate, Passage
from serve_app.limits.response_budget import PIECE, START, announced_size, discard, in_pieces
from telemetry.registry import Metrics

log = structlog.get_logger("http")

PASSAGE = "muster.passage"
# Stands for a slash that a client wrote as %2F inside an id. Not printable, so no id has it.
SLASH = "\ue000"
_ENCODED_SLASH = re.compile(rb"%2f", re.IGNORECASE)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# No answer is taken for what it is not said to be.
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
# Who looks after a busy replica must see that it is busy, not take it for dead. These answer
# from caches, so they cannot become a load themselves.
_URGENT = ("/actuator/", "/metrics")


class _Facts(NamedTuple):
    """What the guard reads from the headers."""

    request_id: str
    length: int | None
    encoding: str


class Guard:
    """Outermost layer of the app: bounds, request id, counters, and the answer to any surprise."""

    def __init__(self, app: ASGIApp, *, gate: Gate, max_body: int, metrics: Metrics) -> None:
        self._app = app
        self._gate = gate
        self._max_body = max_body
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        facts = _facts(scope)
        scope[REQUEST_ID] = facts.request_id
        counted = _CountedSend(scope, receive, send)
        lingers = False
        try:
            check_address(scope)
            passage = self._admit(facts, urgent=scope["path"].startswith(_URGENT))
            try:
                scope[PASSAGE] = counted.passage = passage
                _keep_slashes(scope)
                await self._app(scope, self._counted(receive, facts, passage), counted)
            finally:
                lingers = passage.lingers
                passage.leave()
        except ClientDisconnect:
            log.debug("request.hung_up", request=facts.request_id)  # nobody is left to be answered
        except Exception as error:
            if counted.status:  # part of an answer is out: all that is left is to break it off
                log.exception("request.broken_off", request=facts.request_id)
                raise
            problem = self._problem(error, facts)
            note_denial(error, problem, scope, self._metrics.denials.note)
            await respond(problem, scope)(scope, receive, counted)
        finally:
            status = counted.status or 499
            if status == 429:
                self._metrics.shed()
            seconds = None if lingers else time.perf_counter() - began
            self._metrics.http.observe(_method(scope), _route(scope), status, seconds)

    def _admit(self, facts: _Facts, *, urgent: bool) -> Passage:
        if facts.encoding not in {"", "identity"}:
            raise ProblemError(
                Problem(
                    status=415,
                    code="unsupported_media_type",
                    detail=f"a body with Content-Encoding {facts.encoding[:40]} is not accepted",
                    headers={"Accept-Encoding": "identity"},
                )
            )
        if facts.length is not None and facts.length > self._max_body:
            raise too_large(self._max_body)
        return self._gate.enter(urgent=urgent)

    def _counted(self, receive: Receive, facts: _Facts, passage: Passage) -> Receive:
        """A body is counted as it comes: what is only announced takes no room from others."""
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
                    raise too_large(self._max_body)
                passage.hold(len(body))
            return message

        return receive_counted

    def _problem(self, error: Exception, facts: _Facts) -> Problem:
        problem = problem_of(error)
        if problem is INTERNAL:
            log.error("request.crashed", request=facts.request_id, exc_info=error)
        return problem


class _CountedSend:
    """Sends an answer, and knows its status; a large one no faster than it is read.

    No closure: one that names itself is garbage that only the collector finds, with the whole
    request behind it.
    """

    __slots__ = ("_receive", "_scope", "_send", "passage", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.passage: Passage | None = None
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == START:
            size = announced_size(message)
            if size > PIECE and self.passage is not None:
                refusal = _refuse_answer(self.passage, size, self._scope)
                if refusal is not None:
                    await refusal(self._scope, self._receive, self)
                    self._send = discard
                    return
                self._send = in_pieces(self._send)
            self.status = message["status"]
            message["headers"] = [*message["headers"], _NO_SNIFFING]
        await self._send(message)


def _refuse_answer(passage: Passage, size: int, scope: Scope) -> Response | None:
    """What is sent instead of a large answer; None if there is room for it."""
    try:
        # What has changed something is told so, whatever it costs.
        passage.hold_answer(size, always=scope["method"] != "GET")
    except OverloadedError as error:
        return respond(problem_of(error), scope)
    return None


def too_large(limit: int) -> ProblemError:
    """The body is over the limit; the connection ends, since the rest of it is not read."""
    return ProblemError(
        Problem(
            status=413,
            code="too_large",
            detail=f"the body is larger than {limit} bytes",
            headers={"Connection": "close"},
        )
    )


def _facts(scope: Scope) -> _Facts:
    headers = headers_in(scope)
    request_id = headers.get("x-request-id", "")
    if not _REQUEST_ID.fullmatch(request_id):
        request_id = os.urandom(16).hex()
    length = headers.get("content-length", "")
    encoding = headers.get("content-encoding", "")
    return _Facts(
        request_id,
        int(length) if length.isascii() and length.isdigit() else None,
        encoding.strip().lower(),
    )


def _keep_slashes(scope: Scope) -> None:
    """Route on the path as the client cut it: an encoded slash belongs to an id."""
    raw = scope.get("raw_path") or b""
    if b"%2" in raw and _ENCODED_SLASH.search(raw):
        kept = _ENCODED_SLASH.sub(SLASH.encode(), raw.split(b"?")[0])
        scope["path"] = unquote(kept)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in _METHODS else "OTHER"


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path_format", "unmatched")
