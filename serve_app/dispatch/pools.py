"""Dispatch pools: how many deliveries a minute, and how many at once."""

from dataclasses import replace
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from core.access.permissions import Permission
from core.dispatch.pool import PoolRefusal
from core.shared.errors import InvalidError
from serve_app.dispatch.pool_models import (
    PoolPage,
    PoolPatch,
    PoolQuery,
    PoolReplacement,
    PoolRequest,
    PoolView,
)
from serve_app.dispatch.subscription_models import POOL_NAME
from serve_app.dispatch.subscription_rendering import pool_document, refusal_error
from serve_app.http.cursors import read_id_cursor
from serve_app.http.json_io import json_response, parse_as, read_body
from serve_app.http.openapi import describe_responses, json_body
from serve_app.http.permissions import caller_of, replica_of, requires
from storage.dispatch import pools
from storage.dispatch.pools import PoolRow

log = structlog.get_logger("dispatch_pools")

PREFIX = "/api/dispatch-pools"
router = APIRouter(prefix=PREFIX, tags=["dispatch pools"])

Reads = requires(Permission.DISPATCH_READ)
Writes = requires(Permission.DISPATCH_WRITE)

PoolName = Annotated[
    str,
    Path(alias="id", pattern=POOL_NAME, description="The id or the code.", examples=["default"]),
]


@router.post(
    "",
    dependencies=[Writes],
    operation_id="createDispatchPool",
    status_code=201,
    responses=describe_responses({201: PoolView}, 409),
    openapi_extra=json_body(PoolRequest),
)
async def create_pool(request: Request) -> Response:
    """Make a dispatch pool. There is a bound on all of them together: each is a process."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    new = parse_as(PoolRequest, raw).to_new(f"dpl_{replica.new_id()}")
    done = await replica.database.query_once(
        pools.create, caller.tenant, new, replica.options.pool_limit
    )
    return _settled(request, "dispatch_pool.created", done, 201)


@router.get(
    "",
    dependencies=[Reads],
    operation_id="listDispatchPools",
    responses=describe_responses({200: PoolPage}),
)
async def list_pools(request: Request, query: Annotated[PoolQuery, Query()]) -> Response:
    """List the tenant's dispatch pools and those of the anchor, which it may use."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    chosen, after = query.to_filter(), read_id_cursor(query.cursor) or 0
    found = await replica.listings.query(pools.page, tenant, chosen, after, query.limit)
    document = {
        "pools": [pool_document(row) for row in found],
        "total": await replica.listings.query(pools.count, tenant, chosen),
        "nextCursor": str(found[-1].pool_no) if len(found) == query.limit else None,
    }
    return json_response(document)


@router.get(
    "/{id}",
    dependencies=[Reads],
    operation_id="showDispatchPool",
    responses=describe_responses({200: PoolView}, 404),
)
async def show_pool(request: Request, name: PoolName) -> Response:
    """Show one dispatch pool: the tenant's own, else the anchor's."""
    replica, tenant = replica_of(request), caller_of(request).tenant
    found = await replica.database.query(pools.read, tenant, name)
    if found is None:
        raise refusal_error(PoolRefusal.POOL_NOT_FOUND)
    return json_response(pool_document(found))


@router.put(
    "/{id}",
    dependencies=[Writes],
    operation_id="replaceDispatchPool",
    responses=describe_responses({200: PoolView}, 404, 409),
    openapi_extra=json_body(PoolReplacement),
)
async def replace_pool(request: Request, name: PoolName) -> Response:
    """Make a dispatch pool anew; it holds from the next delivery on."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    body = parse_as(PoolReplacement, raw)

    def edit(current: PoolRow) -> PoolRow:
        if body.code not in (None, current.code):
            raise InvalidError("code", f"{current.code}: a code stays")
        return replace(current, **body.values())

    done = await replica.database.query_once(pools.change, caller.tenant, name, edit)
    return _settled(request, "dispatch_pool.replaced", done)


@router.patch(
    "/{id}",
    dependencies=[Writes],
    operation_id="changeDispatchPool",
    responses=describe_responses({200: PoolView}, 404, 409),
    openapi_extra=json_body(PoolPatch),
)
async def change_pool(request: Request, name: PoolName) -> Response:
    """Change some of a dispatch pool; it holds from the next delivery on."""
    replica, caller = replica_of(request), caller_of(request)
    raw = await read_body(request, replica.config.request_timeout)
    values = parse_as(PoolPatch, raw).values()
    done = await replica.database.query_once(
        pools.change, caller.tenant, name, lambda current: replace(current, **values)
    )
    return _settled(request, "dispatch_pool.changed", done)


@router.post(
    "/{id}/suspend",
    dependencies=[Writes],
    operation_id="suspendDispatchPool",
    responses=describe_responses({200: PoolView}, 404, 409),
)
async def suspend_pool(request: Request, name: PoolName) -> Response:
    """Let a dispatch pool wait; what it has begun it ends."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(pools.suspend, caller.tenant, name)
    return _settled(request, "dispatch_pool.suspended", done)


@router.post(
    "/{id}/activate",
    dependencies=[Writes],
    operation_id="activateDispatchPool",
    responses=describe_responses({200: PoolView}, 404, 409),
)
async def activate_pool(request: Request, name: PoolName) -> Response:
    """Let a dispatch pool deliver again, also one that was archived."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(
        pools.activate, caller.tenant, name, replica.options.pool_limit
    )
    return _settled(request, "dispatch_pool.activated", done)


@router.delete(
    "/{id}",
    dependencies=[Writes],
    operation_id="archiveDispatchPool",
    status_code=204,
    responses=describe_responses({}, 404, 409),
)
async def archive_pool(request: Request, name: PoolName) -> Response:
    """Archive a dispatch pool that no active subscription names and in which nothing waits."""
    replica, caller = replica_of(request), caller_of(request)
    done = await replica.database.query_once(pools.archive, caller.tenant, name)
    _settled(request, "dispatch_pool.archived", done)
    return Response(status_code=204)


def _settled(
    request: Request, what: str, done: PoolRefusal | PoolRow, status: int = 200
) -> Response:
    """The pool after a step, or why there was none."""
    if isinstance(done, PoolRefusal):
        raise refusal_error(done)
    caller = caller_of(request)
    log.info(what, tenant=caller.tenant, code=done.code, by=caller.prefix)
    return json_response(pool_document(done), status)
