"""A receiver to try deliveries on: it accepts anything, stores nothing, and answers as asked.

It needs no key, and exists only if the settings switch it on.
"""

import asyncio
import contextlib
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from core.shared.errors import NotFoundError
from serve_app.http.json_io import body_timed_out, headers_of, json_response, wait_for_disconnect
from serve_app.http.permissions import replica_of, request_slot_of
from serve_app.http.problems import Problem, problem_response

SLOW_SECONDS = 35.0
MAX_DELAY_SECONDS = 43_200
_SHOWN = 64

log = structlog.get_logger("sample_webhook")

router = APIRouter(prefix="/api/sample/webhook", include_in_schema=False)


@router.post("")
async def receive(request: Request) -> Response:
    """Accept a delivery."""
    await _taken(request, 200)
    return json_response({"ack": True, "message": "received"})


@router.post("/fail-transient")
async def fail_for_now(request: Request) -> Response:
    """Fail in a way that is worth a retry."""
    await _taken(request, 500)
    return _failed(request, 500, "failed, for now, as asked")


@router.post("/fail-permanent")
async def fail_for_good(request: Request) -> Response:
    """Fail in a way that no retry mends."""
    await _taken(request, 400)
    return _failed(request, 400, "failed, for good, as asked")


@router.post("/defer")
async def defer(
    request: Request,
    delay: Annotated[int | None, Query(alias="delaySeconds", ge=1, le=MAX_DELAY_SECONDS)] = None,
) -> Response:
    """Ask to be tried again later."""
    await _taken(request, 200)
    answer: dict[str, object] = {"ack": False, "message": "not now"}
    return json_response(answer if delay is None else answer | {"delaySeconds": delay})


@router.post("/slow")
async def take_long(
    request: Request, seconds: Annotated[float, Query(ge=0, le=SLOW_SECONDS)] = SLOW_SECONDS
) -> Response:
    """Accept a delivery after a while, unless the sender hangs up."""
    await _taken(request, 200)
    request_slot_of(request).count_as_stream()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait_for_disconnect(request)
            return Response(status_code=499)
    return json_response({"ack": True, "message": "received, at last"})


def _failed(request: Request, status: int, detail: str) -> Response:
    """Return a problem document: proxies take a bare 500 for a missing server."""
    return problem_response(
        Problem(status=status, code="sample_failure", detail=detail), request.scope
    )


async def _taken(request: Request, status: int) -> None:
    """Read the body without storing it, and log the id of the delivery."""
    replica = replica_of(request)
    if not replica.options.sample_receiver:
        raise NotFoundError("the sample receiver")
    try:
        async with asyncio.timeout(replica.config.request_timeout):
            size = await _discarded(request)
    except TimeoutError:
        raise body_timed_out("the body did not come") from None
    webhook_id = headers_of(request).get("webhook-id") or ""
    log.info("sample_webhook.received", id=webhook_id[:_SHOWN], size=size, status=status)


async def _discarded(request: Request) -> int:
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size += len(message.get("body", b""))
        if not message.get("more_body", False):
            return size
