"""Subscriptions and dispatch pools as an application declares them, in one request."""

from typing import Annotated

from fastapi import Path

from core.access.permissions import Permission
from core.events.event_type import CODE_LENGTH, SEGMENT
from core.shared.quotas import Quota
from serve_app.dispatch.declaration_models import (
    PoolSyncRequest,
    SubscriptionSyncRequest,
    SyncView,
)
from serve_app.dispatch.subscription_service import SubscriptionService
from serve_app.http.problems import ProblemError, problem_of_refusal
from serve_app.http.router import Context, HttpRouter
from services.dispatch import declarations
from services.dispatch.declarations import DeclarationOptions, SyncRefusal, SyncResult
from storage.dispatch.pools import NewPool

Application = Annotated[
    str, Path(pattern=rf"^{SEGMENT}$", max_length=CODE_LENGTH, examples=["shop"])
]
router = HttpRouter("/api/applications", refuses=(409,))


@router.post(
    "/{application}/subscriptions/sync",
    needs=Permission.SUBSCRIPTIONS_WRITE,
    tags=["subscriptions"],
)
async def sync_subscriptions(
    application: Application, body: SubscriptionSyncRequest, context: Context
) -> SyncView:
    """Make an application's subscriptions what it declares: all of it, or nothing changes."""
    wanted = await SubscriptionService(context.replica, context.tenant).declared(body.subscriptions)
    codes = [one.code for one in wanted]
    await context.replica.count_quotas.check_declared(context.tenant, Quota.SUBSCRIPTIONS, codes)
    options = body.to_options(application)
    done = await context.replica.database.query_once(
        declarations.sync_subscriptions, context.tenant, options, wanted
    )
    return _view(context, options, done)


@router.post(
    "/{application}/dispatch-pools/sync", needs=Permission.DISPATCH_WRITE, tags=["dispatch pools"]
)
async def sync_dispatch_pools(
    application: Application, body: PoolSyncRequest, context: Context
) -> SyncView:
    """Make an application's dispatch pools what it declares: all of it, or nothing changes."""
    options = body.to_options(application)
    wanted = [NewPool(pool_id=context.new_id("dpl"), **one.model_dump()) for one in body.pools]
    limit = context.replica.options.pool_limit
    done = await context.replica.database.query_once(
        declarations.sync_pools, context.tenant, options, wanted, limit
    )
    return _view(context, options, done)


def _view(
    context: Context, options: DeclarationOptions, done: SyncResult | SyncRefusal
) -> SyncView:
    if isinstance(done, SyncRefusal):
        detail = f"{done.code}: {done.refusal.sentence}; nothing was changed"
        raise ProblemError(problem_of_refusal(done.refusal, detail))
    if not options.is_dry_run:
        context.replica.subscription_cache.clear()
    fields = {"application": options.application, "dry_run": options.is_dry_run}
    return SyncView.of({name: getattr(done, name) for name in done.__slots__} | fields)
