"""Waits: register, list, show and cancel."""

import asyncio
from functools import partial
from typing import Annotated

from fastapi import Query, Request
from msgspec import Raw
from starlette.responses import Response

from core.shared.address import Address
from core.waits.messages import Cancel
from serve_app.container import Replica
from serve_app.http.cursors import read_wait_cursor, wait_cursor
from serve_app.http.event_replies import check_cancelled
from serve_app.http.json_io import json_response, parse_as, parse_items, read_body
from serve_app.http.models import Document
from serve_app.http.openapi import json_body
from serve_app.http.permissions import WaitAddress, caller_of, replica_of, request_slot_of
from serve_app.http.problems import Problem, ProblemError, problem_error
from serve_app.http.router import Context, HttpRouter, unless_missing
from serve_app.waits.request_models import MAX_ITEMS, WaitBatch, WaitQuery, WaitRequest
from serve_app.waits.wait_models import WaitPage, WaitRegistered, WaitResults, WaitView
from services.shared.process import new_turn_id
from services.shared.time_slice import map_yielding, offload_if_large
from storage.waits import waits
from storage.waits.waits import WaitFilter, WaitRow, size_of

MAX_POLL_SECONDS = 60.0

ONE_WAIT = "/{executionId}/{correlationId}"

router = HttpRouter("/api/wait-states", tag="waits", access="waits")


@router.post(
    status=201,
    answers={201: WaitRegistered, 200: WaitRegistered},
    refuses=(409,),
    raw=json_body(WaitRequest),
)
async def register_wait(request: Request) -> Response:
    """Register a wait; repeating the same registration answers 200 with the same wait."""
    replica = replica_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    check_size(raw, replica.config.spec_limit)
    registration = parse_as(WaitRequest, raw)
    status, document = await replica.registrar.register(caller_of(request).tenant, registration)
    return json_response(document, status)


@router.post("/batch", answers={200: WaitResults}, raw=json_body(WaitBatch))
async def register_waits(request: Request) -> Response:
    """Register up to 1000 waits; each has its result."""
    replica = replica_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    read = partial(_parse_registration, limit=replica.config.spec_limit)
    registrations = await map_yielding(read, parse_items(raw, MAX_ITEMS))
    good = [registration for registration in registrations if isinstance(registration, WaitRequest)]
    tenant = caller_of(request).tenant
    answers = iter(await replica.registrar.register_many(tenant, good) if good else [])
    results = [
        _result(next(answers)) if isinstance(registration, WaitRequest) else _refused(registration)
        for registration in registrations
    ]
    return json_response({"results": results})


@router.get()
async def list_waits(query: Annotated[WaitQuery, Query()], context: Context) -> WaitPage:
    """List waits, newest first."""
    chosen = WaitFilter(
        status=query.status,
        execution_id=query.execution_id,
        strategy=query.strategy,
        older_than=query.older_than,
    )
    after = read_wait_cursor(query.cursor)
    found = await context.list(waits.page, chosen, after, query.limit)
    return WaitPage.of_scan(
        found, query.limit, lambda wait: (wait.opened_at, wait.address.key), wait_cursor
    )


@router.get(ONE_WAIT, refuses=(404,))
async def show_wait(
    address: WaitAddress,
    context: Context,
    wait: Annotated[
        float, Query(ge=0, le=MAX_POLL_SECONDS, description="Seconds to wait for the end.")
    ] = 0,
) -> WaitView:
    """Show one wait; with `wait`, delay the response until the wait has ended."""
    replica = context.replica
    wait_row = await read_wait(replica, address)
    if wait and wait_row.wait.ending is None:
        request_slot_of(context.request).count_as_stream()
        wait_row = await _ended(replica, address, wait_row, wait)
    return await _view(replica, wait_row)


@router.delete(ONE_WAIT, refuses=(404, 409), logs=False)
async def cancel_wait(address: WaitAddress, context: Context) -> WaitView:
    """Cancel a wait that has not ended."""
    replica = context.replica
    check_cancelled(await replica.client.send(Cancel(address=address, turn_id=new_turn_id())))
    return await _view(replica, await read_wait(replica, address))


async def read_wait(replica: Replica, address: Address) -> WaitRow:
    wait_row = await replica.database.query(waits.read, address)
    return unless_missing(wait_row, f"wait state {address.scoped_id}")


async def _ended(
    replica: Replica, address: Address, wait_row: WaitRow, timeout_seconds: float
) -> WaitRow:
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_seconds
    async with replica.client.watch(address) as watch:
        while wait_row.wait.ending is None and (left := until - loop.time()) > 0:
            await watch.changed(timeout=left)
            wait_row = await read_wait(replica, address)
    return wait_row


async def _view(replica: Replica, wait_row: WaitRow) -> WaitView:
    counted = await replica.database.query(waits.read_counted, wait_row.wait)
    return await offload_if_large(lambda: WaitView.of_row(wait_row, counted), size_of(counted))


def check_size(raw: bytes | Raw, limit: int) -> None:
    """Refuse a registration that is too large for a shard, before it is decoded."""
    size = len(bytes(raw))
    if size > limit:
        detail = (
            f"this registration has {size} bytes; the most is {limit} (MUSTER_SPEC_LIMIT). "
            "A large apiCall.body or filter belongs where the call is made"
        )
        raise problem_error(413, "too_large", detail)


def _parse_registration(item: Raw, limit: int) -> WaitRequest | Problem:
    try:
        check_size(item, limit)
        return parse_as(WaitRequest, item)
    except ProblemError as error:
        return error.problem


def _result(registered: tuple[int, Document] | ProblemError) -> Document:
    if isinstance(registered, ProblemError):
        return _refused(registered.problem)
    status, document = registered
    return {"status": status, "body": document}


def _refused(problem: Problem) -> Document:
    return {"status": problem.status, "problem": problem.document()}
