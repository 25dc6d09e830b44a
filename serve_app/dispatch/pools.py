"""Dispatch pools over HTTP."""

from typing import Annotated

from fastapi import Query

from core.dispatch.pool import PoolRefusal
from serve_app.dispatch.pool_models import (
    NamedPool,
    PoolPatch,
    PoolQuery,
    PoolReplacement,
    PoolRequest,
    PoolView,
)
from serve_app.http.cursors import read_id_cursor
from serve_app.http.page import CountedPage
from serve_app.http.router import Context, HttpRouter, refuse
from storage.dispatch import pools
from storage.dispatch.pools import NewPool, PoolFilter

router = HttpRouter(
    "/api/dispatch-pools", tag="dispatch pools", access="dispatch", refuses=PoolRefusal
)


@router.post(status=201)
async def create_dispatch_pool(body: PoolRequest, context: Context) -> PoolView:
    """Create a dispatch pool. The number of pools of all tenants is limited: each is a process."""
    new = NewPool(pool_id=context.new_id("dpl"), **body.model_dump())
    return PoolView.of(await context.write(pools.create, new, context.replica.options.pool_limit))


@router.get()
async def list_dispatch_pools(
    query: Annotated[PoolQuery, Query()], context: Context
) -> CountedPage[PoolView]:
    """List the tenant's dispatch pools and the anchor's, which every tenant may use."""
    wanted, after = PoolFilter(query.status, query.anchor_level), read_id_cursor(query.cursor) or 0
    rows = await context.list(pools.page, wanted, after, query.limit)
    total, page = await context.list(pools.count, wanted), CountedPage[PoolView]
    return page.of_rows(rows, query.limit, lambda row: str(row.pool_no), total=total)


@router.get("/{id}")
async def show_dispatch_pool(name: NamedPool, context: Context) -> PoolView:
    """Show one dispatch pool: the tenant's own, else the anchor's."""
    row = await context.read(pools.read, name)
    return PoolView.of(row or refuse(PoolRefusal.POOL_NOT_FOUND))


@router.put("/{id}")
async def replace_dispatch_pool(
    name: NamedPool, body: PoolReplacement, context: Context
) -> PoolView:
    """Replace all of a dispatch pool but its code, from the next delivery on."""
    return PoolView.of(await context.write(pools.change, name, body.edit))


@router.patch("/{id}")
async def change_dispatch_pool(name: NamedPool, body: PoolPatch, context: Context) -> PoolView:
    """Change some fields of a dispatch pool, from the next delivery on."""
    return PoolView.of(await context.write(pools.change, name, body.edit))


@router.post("/{id}/suspend")
async def suspend_dispatch_pool(name: NamedPool, context: Context) -> PoolView:
    """Start no more deliveries in a dispatch pool; those under way go on."""
    return PoolView.of(await context.write(pools.suspend, name))


@router.post("/{id}/activate")
async def activate_dispatch_pool(name: NamedPool, context: Context) -> PoolView:
    """Resume a dispatch pool that is suspended or archived."""
    limit = context.replica.options.pool_limit
    return PoolView.of(await context.write(pools.activate, name, limit))


@router.delete("/{id}")
async def archive_dispatch_pool(name: NamedPool, context: Context) -> None:
    """Archive a dispatch pool that no active subscription and no waiting delivery uses."""
    await context.write(pools.archive, name)
