"""Dispatch pools over HTTP."""

from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query

from core.access.permissions import Permission
from core.dispatch.pool import PoolRefusal
from core.shared.errors import InvalidError
from serve_app.dispatch.pool_models import (
    POOL_NAME,
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
from storage.dispatch.pools import PoolRow

READ, WRITE = Permission.DISPATCH_READ, Permission.DISPATCH_WRITE
PoolName = Annotated[
    str,
    Path(alias="id", pattern=POOL_NAME, description="The id or the code.", examples=["default"]),
]

router = HttpRouter("/api/dispatch-pools", tag="dispatch pools")


@router.post(needs=WRITE, refuses=PoolRefusal, status=201)
async def create_dispatch_pool(body: PoolRequest, context: Context) -> PoolView:
    """Create a dispatch pool. The number of pools of all tenants is limited: each is a process."""
    new = body.to_new(context.new_id("dpl"))
    return PoolView.of(await context.write(pools.create, new, context.replica.options.pool_limit))


@router.get(needs=READ)
async def list_dispatch_pools(
    query: Annotated[PoolQuery, Query()], context: Context
) -> CountedPage[PoolView]:
    """List the tenant's dispatch pools and the anchor's, which every tenant may use."""
    wanted, after = query.to_filter(), read_id_cursor(query.cursor) or 0
    rows = await context.list(pools.page, wanted, after, query.limit)
    total = await context.list(pools.count, wanted)
    return CountedPage[PoolView].of_rows(
        rows, query.limit, lambda row: str(row.pool_no), total=total
    )


@router.get("/{id}", needs=READ, refuses=PoolRefusal)
async def show_dispatch_pool(name: PoolName, context: Context) -> PoolView:
    """Show one dispatch pool: the tenant's own, else the anchor's."""
    row = await context.read(pools.read, name)
    return PoolView.of(row or refuse(PoolRefusal.POOL_NOT_FOUND))


@router.put("/{id}", needs=WRITE, refuses=PoolRefusal)
async def replace_dispatch_pool(
    name: PoolName, body: PoolReplacement, context: Context
) -> PoolView:
    """Replace all of a dispatch pool but its code, from the next delivery on."""

    def edit(row: PoolRow) -> PoolRow:
        if body.code not in (None, row.code):
            raise InvalidError("code", f"{row.code}: a pool's code cannot change")
        return replace(row, **body.values())

    return PoolView.of(await context.write(pools.change, name, edit))


@router.patch("/{id}", needs=WRITE, refuses=PoolRefusal)
async def change_dispatch_pool(name: PoolName, body: PoolPatch, context: Context) -> PoolView:
    """Change some fields of a dispatch pool, from the next delivery on."""
    values = body.values()
    return PoolView.of(await context.write(pools.change, name, lambda row: replace(row, **values)))


@router.post("/{id}/suspend", needs=WRITE, refuses=PoolRefusal)
async def suspend_dispatch_pool(name: PoolName, context: Context) -> PoolView:
    """Start no more deliveries in a dispatch pool; those under way go on."""
    return PoolView.of(await context.write(pools.suspend, name))


@router.post("/{id}/activate", needs=WRITE, refuses=PoolRefusal)
async def activate_dispatch_pool(name: PoolName, context: Context) -> PoolView:
    """Resume a dispatch pool that is suspended or archived."""
    limit = context.replica.options.pool_limit
    return PoolView.of(await context.write(pools.activate, name, limit))


@router.delete("/{id}", needs=WRITE, refuses=PoolRefusal)
async def archive_dispatch_pool(name: PoolName, context: Context) -> None:
    """Archive a dispatch pool that no active subscription and no waiting delivery uses."""
    await context.write(pools.archive, name)
