"""Waits: register, list, look at, cancel."""

import asyncio
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import Raw
from starlette.responses import Response

from actors.runtime.actor import mint
from core.access.permissions import Permission
from core.shared.address import Address
from core.shared.errors import NotFoundError
from core.waits.messages import Cancel
from serve_app.container import Replica
from serve_app.http.cursors import next_wait_cursor, read_wait_cursor
from serve_app.http.json_io import answer, parse_as, parse_items, read_body
from serve_app.http.openapi import body, described
from serve_app.http.permissions import Target, caller_of, passage_of, replica_of, requires
from serve_app.http.problems import Problem, ProblemError
from serve_app.http.raw_route import LeanRoute
from serve_app.waits.rendering import Document, summary_document, wait_document
from serve_app.waits.replies import check_cancelled
from serve_app.waits.request_models import MAX_ITEMS, WaitBatch, WaitQuery, WaitRequest
from serve_app.waits.wait_models import WaitOpened, WaitPage, WaitResults, WaitView
from services.shared.time_slice import apart, in_steps
from storage.waits import waits
from storage.waits.waits import Seen, WaitFilter, size_of

LONGEST_POLL = 60.0

lean = APIRouter(route_class=LeanRoute, tags=["waits"])
router = APIRouter(tags=["waits"])


@lean.post(
    "/api/wait-states",
    dependencies=[requires(Permission.WAITS_WRITE)],
    operation_id="registerWait",
    status_code=201,
    responses=described({201: WaitOpened, 200: WaitOpened}, 409),
    openapi_extra=body(WaitRequest),
)
async def register_wait(request: Request) -> Response:
    """Register a wait; repeating the same registration answers 200 with the same wait."""
    replica = replica_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    check_size(raw, replica.config.spec_limit)
    wish = parse_as(WaitRequest, raw)
    status, document = await replica.registrar.register(caller_of(request).tenant, wish)
    return answer(document, status)


@lean.post(
    "/api/wait-states/batch",
    dependencies=[requires(Permission.WAITS_WRITE)],
    operation_id="registerWaits",
    responses=described({200: WaitResults}),
    openapi_extra=body(WaitBatch),
)
async def register_waits(request: Request) -> Response:
    """Register up to 1000 waits; each is answered on its own."""
    replica = replica_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    read = partial(_wish, limit=replica.config.spec_limit)
    wishes = await in_steps(read, parse_items(raw, MAX_ITEMS))
    good = [wish for wish in wishes if isinstance(wish, WaitRequest)]
    tenant = caller_of(request).tenant
    answers = iter(await replica.registrar.register_many(tenant, good) if good else [])
    results = [
        _result(next(answers)) if isinstance(wish, WaitRequest) else _refused(wish)
        for wish in wishes
    ]
    return answer({"results": results})


@router.get(
    "/api/wait-states",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="listWaits",
    responses=described({200: WaitPage}),
)
async def list_waits(request: Request, query: Annotated[WaitQuery, Query()]) -> Response:
    """List waits, newest first."""
    replica = replica_of(request)
    chosen = WaitFilter(
        status=query.status,
        execution_id=query.execution_id,
        strategy=query.strategy,
        older_than=query.older_than,
    )
    tenant, after = caller_of(request).tenant, read_wait_cursor(query.cursor)
    found = await replica.listings.ask(waits.page, tenant, chosen, after, query.limit)
    return answer(
        {
            "items": [summary_document(wait) for wait in found.items],
            "nextCursor": next_wait_cursor(found, query.limit),
        }
    )


@router.get(
    "/api/wait-states/{executionId}/{correlationId}",
    dependencies=[requires(Permission.WAITS_READ)],
    operation_id="showWait",
    responses=described({200: WaitView}, 404),
)
async def show_wait(
    request: Request,
    address: Target,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_POLL, description="Seconds to wait for the end.")
    ] = 0,
) -> Response:
    """Show one wait; with `wait`, hold the answer back until it has ended."""
    replica = replica_of(request)
    seen = await read_wait(replica, address)
    if wait and seen.wait.ending is None:
        passage_of(request).linger()
        seen = await _ended(replica, address, seen, wait)
    return await _view(replica, seen)


@router.delete(
    "/api/wait-states/{executionId}/{correlationId}",
    dependencies=[requires(Permission.WAITS_WRITE)],
    operation_id="cancelWait",
    responses=described({200: WaitView}, 404, 409),
)
async def cancel_wait(request: Request, address: Target) -> Response:
    """Cancel a wait that has not ended."""
    replica = replica_of(request)
    check_cancelled(await replica.gateway.send(Cancel(address=address, turn_id=mint())))
    return await _view(replica, await read_wait(replica, address))


async def read_wait(replica: Replica, address: Address) -> Seen:
    """The wait as its row has it; raises NotFoundError."""
    seen = await replica.database.ask(waits.read, address)
    if seen is None:
        raise NotFoundError(f"wait state {address.scoped_id}")
    return seen


async def _ended(replica: Replica, address: Address, seen: Seen, patience: float) -> Seen:
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    async with replica.gateway.watch(address) as watch:
        while seen.wait.ending is None and (left := until - loop.time()) > 0:
            await watch.changed(timeout=left)
            seen = await read_wait(replica, address)
    return seen


async def _view(replica: Replica, seen: Seen) -> Response:
    counted = await replica.database.ask(waits.read_counted, seen.wait)
    return await apart(lambda: answer(wait_document(seen, counted)), size_of(counted))


def check_size(raw: bytes | Raw, limit: int) -> None:
    """Refuse a registration that shards would have to hold, before it is decoded.

    Raises:
        ProblemError: It is larger than the limit.
    """
    size = len(bytes(raw))
    if size > limit:
        detail = (
            f"this registration has {size} bytes; the most is {limit} (MUSTER_SPEC_LIMIT). "
            "A large apiCall.body or filter belongs where the call is made"
        )
        raise ProblemError(Problem(status=413, code="too_large", detail=detail))


def _wish(item: Raw, limit: int) -> WaitRequest | Problem:
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
